"""Bringing a database to this program's schema."""
