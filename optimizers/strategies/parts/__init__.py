"""Parts that several strategies are put together from, or that one would be too long with."""
