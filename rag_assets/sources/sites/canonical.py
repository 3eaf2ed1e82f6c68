"""The address that a built page calls its own (`<link rel="canonical">`), remembered while nothing of its file changes.

Belongs here: the link in a page's head, what the last sync found. Does not belong here: which of these addresses count
(`planning`), a page's text (`built_html`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape

from rag_assets.sources.documents.file_changes import is_unchanged
from rag_assets.sources.documents.renames import Known
from rag_assets.sources.sites.site import SitePlan
from rag_assets.sources.sites.trees import FileTree
from rag_assets.steps.files.records import FileError

_LINK = re.compile(r"<link\b([^<>]{1,2000})>", re.I)
_ATTRIBUTE = re.compile(
    r"""\b(rel|href)\s{0,9}=\s{0,9}(?:"([^"<>]{0,2000})"|'([^'<>]{0,2000})'|([^\s"'<>]{1,2000}))""", re.I
)
_HEAD_MAX = 64 * 1024  # bytes


def with_canonical(
    plan: SitePlan, tree: FileTree, known: Mapping[str, Known], began: object, found: Mapping[str, str]
) -> SitePlan:
    """Return the plan of a built site with the address that each page calls its own.

    Args:
        plan: of any site; pages of one that is not built yet name no address.
        tree: its files; only those are opened that changed, or that were not looked at.
        known: the files at the last sync, by name.
        began: when that began (`file_changes.is_unchanged`).
        found: the addresses that it found, by name; empty where a page names none.
    """
    if plan.generator != "html":
        return plan
    pages = [
        replace(
            page,
            canonical=found[page.name]
            if page.name in found and is_unchanged(tree, page.name, known.get(page.name), began)
            else _address(tree, page.name),
        )
        for page in plan.pages
    ]
    return replace(plan, pages=pages)


def _address(tree: FileTree, name: str) -> str:
    """Return the address that a page calls its own; empty where it names none, or cannot be read."""
    try:
        head = tree.read(name)[:_HEAD_MAX].decode("utf-8", "replace")
    except (FileError, KeyError):
        return ""
    for link in _LINK.findall(head):
        values = {name.lower(): one or other or bare for name, one, other, bare in _ATTRIBUTE.findall(link)}
        if values.get("rel", "").lower() == "canonical":
            return unescape(values.get("href", "")).strip()
    return ""
