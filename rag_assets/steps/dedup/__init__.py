"""Near-duplicates."""
