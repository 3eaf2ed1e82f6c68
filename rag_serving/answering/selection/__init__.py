"""Which units of the locked passages answer, and what is shown with them."""
