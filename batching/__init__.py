"""How much at once, and how many."""
