"""The life of a question, from the caller to the answer with its receipt."""
