"""Which key groups move when operators get other numbers of instances."""
