"""The simulation of whole queues at once, for operators that do not depend on each other."""
