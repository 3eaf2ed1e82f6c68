"""Answers that are kept for when no search can be made."""
