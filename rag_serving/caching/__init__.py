"""Answers that are kept in memory: to be given again, and for when no search can be made."""
