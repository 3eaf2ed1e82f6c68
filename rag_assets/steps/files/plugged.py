"""Kinds of files that plug-ins read: they join by entry points `citelock.formats`, named by the kind.

Belongs here: finding the reader of a kind, and what to install if there is none.
Does not belong here: kinds that are read without a plug-in (`file_text`), other packages (`records`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_serving.plugins import loaded

GROUP = "citelock.formats"
SCANNED = "image"
"""What joins for this kind reads pictures of pages (`rag_assets.parsing.scanned.ScannedDocuments`), not files."""
FormatReader = Callable[[bytes, Composed, PagesDone | None], FileText]
"""Given the content, an empty body and what is told how far a paged file is; raises FileError."""
_EXTRAS = MappingProxyType(
    {
        **dict.fromkeys(("email", "epub", SCANNED, "odp", "ods", "odt", "outlook", "rtf"), "citelock[formats]"),
        **dict.fromkeys(("mdx", "rst"), "citelock[sites]"),
    }
)


def missing_extra(kind: str) -> str | None:
    """Return the extra to install before files of a kind can be read; None if they can, or no plug-in reads them."""
    return None if kind in loaded(GROUP) else _EXTRAS.get(kind)


def lack(kind: str) -> str:
    """Return why files of a kind are not read."""
    extra = missing_extra(kind)
    if extra is None:
        return f"files of kind {kind!r} are not read"
    return f"files of this kind are read with {extra}; install it on the machine that builds"


def plugged_in(kind: str) -> FormatReader:
    """Return the reader of a kind. Raises FileError if its plug-in is not installed."""
    reader: FormatReader = brought(kind)
    return reader


def brought(kind: str) -> Any:
    """Return a plug-in's reader for a kind. Raises FileError if it is not installed."""
    if kind not in loaded(GROUP):
        raise FileError(lack(kind))
    return loaded(GROUP)[kind].load()


def is_installed_now(reason: str) -> bool:
    """Return whether a file was left out for want of a plug-in that is now installed."""
    return any(extra in reason and kind in loaded(GROUP) for kind, extra in _EXTRAS.items())
