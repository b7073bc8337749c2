"""What we know of a stream: small, mergeable summaries of the keys that pass."""
