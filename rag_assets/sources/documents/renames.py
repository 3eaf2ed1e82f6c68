"""Which page each file of a folder is: the one of its name, or of the file that had its content before.

Belongs here: what is remembered of a file, and the decision. Does not belong here: files themselves (`folder`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.sources.base import digest
from rag_assets.sources.documents.rows import MARK


@dataclass(frozen=True)
class Known:
    """A file as the last sync saw it; `left_out`: `failed` or `excluded`, and why, where it gave no row."""

    page_id: str  # without the source's prefix
    sha256: str
    version: int
    stamp: list[Any]
    left_out: list[str] | None = None

    def dump(self) -> list[Any]:
        """Return it as JSON has it."""
        return [self.page_id, self.sha256, self.version, self.stamp, self.left_out]

    @classmethod
    def load(cls, value: Any) -> Known | None:
        """Return what `dump` wrote; None for anything else."""
        match value:
            case [str(page_id), str(sha256), int(version), [*stamp], None | [str(), str()] as left_out]:
                return cls(page_id, sha256, version, stamp, left_out)
        return None


def identify(key: str, digests: Mapping[str, str], known: Mapping[str, Known]) -> dict[str, str]:
    """Return the page of each file, by name.

    Args:
        key: the source; ids of two sources differ.
        digests: SHA-256 of the files that there are, by name.
        known: those of the last sync.
    """
    page_ids = {name: known[name].page_id for name in digests if name in known}
    new, gone = digests.keys() - known.keys(), known.keys() - digests.keys()
    of_new, of_gone = Counter(digests[name] for name in new), Counter(known[name].sha256 for name in gone)
    renamed = {
        known[name].sha256: known[name].page_id
        for name in gone
        if of_gone[known[name].sha256] == 1 == of_new[known[name].sha256]
    }
    taken = {*page_ids.values(), *renamed.values()}
    for name in sorted(new):
        page_id = renamed.get(digests[name]) or _free_id(key, name, taken)
        taken.add(page_id)
        page_ids[name] = page_id
    return page_ids


def _free_id(key: str, name: str, taken: set[str]) -> str:
    """Return an id made from the name; another one where a renamed file took its id along."""
    again: list[str] = []
    while (page_id := f"{MARK}{digest(key, name, *again)[:16]}") in taken:
        again.append("again")
    return page_id
