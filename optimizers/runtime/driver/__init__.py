"""The driver's half of a job: from batch to batch, and from plan to plan."""
