"""Answers by a language model: its prompt, and the parsing of its reply."""
