"""Answers by a language model: what it is told, and how what it wrote is read."""
