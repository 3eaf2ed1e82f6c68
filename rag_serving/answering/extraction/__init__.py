"""Answers without a model: the sentences of a passage, and what speaks for each."""
