"""The control loop: asks an optimizer, checks its answer, and remembers its decisions."""
