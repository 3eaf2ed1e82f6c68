"""Removing all that an installation keeps of a tenant."""
