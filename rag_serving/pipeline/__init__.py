"""The life of a question, from who asks to the answer with its receipt."""
