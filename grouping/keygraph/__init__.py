"""Keys that belong together: pairs that were seen, their graph, and its division into parts."""
