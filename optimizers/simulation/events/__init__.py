"""The simulation from event to event, for operators that depend on each other."""
