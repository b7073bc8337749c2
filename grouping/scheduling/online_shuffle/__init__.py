"""Online shuffle grouping as published by Rivetti et al."""
