"""One task of a job: from the tuples that came in to those that go out."""
