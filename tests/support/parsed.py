"""Parsing Python, where another thread may do so at the same moment."""

from __future__ import annotations

import ast


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a module. Before CPython 3.11.5 a thread that parses, as the traceback of a logged
    error does, makes another one fail with a SystemError (gh-106905): it is tried again."""
    for _ in range(5):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
