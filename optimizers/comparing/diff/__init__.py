"""Where two tables of results differ."""
