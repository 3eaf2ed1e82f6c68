"""The assets, one module for each: read a table, call a step, write a table, say what happened."""
