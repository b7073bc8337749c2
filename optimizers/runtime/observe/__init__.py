"""What tasks observe of tuples: counts, pairs and costs."""
