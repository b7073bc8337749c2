"""Groupings that choose the instance of a single tuple, by what it costs."""
