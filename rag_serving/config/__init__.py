"""The configuration: reading it, its sections, the names of its keys."""
