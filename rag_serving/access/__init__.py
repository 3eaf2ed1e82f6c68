"""Callers, and what they may read."""
