"""Answers about sets: which, how many, all, since when."""
