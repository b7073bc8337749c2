"""The simulation of micro-batches: stage after stage, each with its tasks on the slots of nodes."""
