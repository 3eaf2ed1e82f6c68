"""Whether a text says what the pages say: its claims, what the pages say of each, and the report."""
