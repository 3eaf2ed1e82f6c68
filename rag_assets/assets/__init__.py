"""The assets: read a table, call a step, write a table, say what happened."""
