"""When retrieval goes down a phase by itself, and when it comes back."""
