"""What the commands of `penstock` do; `optimizers.cli` reads the command line and calls them."""
