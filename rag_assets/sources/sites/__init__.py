"""Documentation sites and books: trees of files that a generator makes pages of."""
