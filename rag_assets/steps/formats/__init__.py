"""Formats of bodies, read into blocks."""
