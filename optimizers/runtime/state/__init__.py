"""The state of keyed operators: tables, their files, and how they grow."""
