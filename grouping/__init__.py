"""Where things go."""
