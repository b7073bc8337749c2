"""Keys that belong together: observed pairs, their graph, and its division into parts."""
