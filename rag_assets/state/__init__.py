"""State beside the tables of runs, and decisions based on it."""
