"""Embedding by worker processes: a queue in the installation's database, workers, and the build that waits for them."""
