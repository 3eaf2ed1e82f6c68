"""Packages that read kinds of files, and the extras that bring them.

Belongs here: what to install where one is missing. Does not belong here: reading (`file_text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MODULES: Mapping[str, str] = MappingProxyType({"pdf": "pypdfium2"})
"""The module without which no file of a kind can be read, where it comes with an extra."""
_EXTRAS = MappingProxyType({"pypdfium2": "pdf"})


def needs(error: ImportError) -> str:
    """Return what to install where a kind of file cannot be read for want of a package."""
    module = (error.name or str(error)).partition(".")[0]
    what = f"install citelock[{_EXTRAS[module]}]" if module in _EXTRAS else "install it"
    return f"files of this kind are read with {module}; {what} on the machine that builds"
