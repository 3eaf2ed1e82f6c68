"""Puts `tests/` on the path, so that test modules of every folder can import the helpers that stand here."""
