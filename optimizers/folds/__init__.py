"""What operators do: vectorised folds over the tuples of many keys, and stateless functions."""
