"""LeastWork: each tuple goes to the instance that finishes it first."""
