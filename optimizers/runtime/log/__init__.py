"""The log of a checkpoint: commits, plans, and their inputs."""
