"""The selection of units of the locked passages that answer, and of their context."""
