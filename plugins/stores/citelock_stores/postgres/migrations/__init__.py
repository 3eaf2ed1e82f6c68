"""Bringing a database to this program's schema.

Belongs here: applying revisions, roles, the key of signed claims. Does not belong here: what is stored (`versions`).
"""
