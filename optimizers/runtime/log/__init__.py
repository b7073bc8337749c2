"""The log of a checkpoint: commits, plans, and what they stand for."""
