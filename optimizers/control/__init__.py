"""The control loop: asks an optimizer, checks its answer, and keeps what was decided."""
