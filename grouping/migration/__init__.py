"""The paper's model of migration: new owners for keys while a stream runs on. No engine uses it."""
