"""Groupings that split the heaviest keys over several instances."""
