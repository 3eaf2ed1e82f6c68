"""Contexts that a language model writes: many at once, resumable, and never in the way of a build."""
