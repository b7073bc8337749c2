"""The strategies that come with Penstock."""
