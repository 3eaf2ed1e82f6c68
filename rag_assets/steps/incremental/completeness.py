"""The account of a source's pages: every page that was enumerated is indexed, excluded or failed, and says why.

Belongs here: the sum that must come out even.
Does not belong here: mending it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CompletenessReport:
    """Where each enumerated page of a source went; ids without a place are `unexplained`."""

    enumerated: int
    chunked: int
    excluded: Mapping[str, str]  # page id -> reason
    failed: Mapping[str, str]
    unexplained: tuple[str, ...]

    @property
    def even(self) -> bool:
        """Whether every enumerated page has its place."""
        return not self.unexplained

    @property
    def explained(self) -> dict[str, str]:
        """Why each page without chunks has none."""
        return {**self.excluded, **self.failed}


def take_account(
    enumerated: Iterable[str],
    sectioned: Iterable[str],
    chunked: Iterable[str],
    excluded: Mapping[str, str],
    failed: Mapping[str, str],
) -> CompletenessReport:
    """Find a place for every enumerated page.

    A page that was read and has no text is excluded as such: it has nothing that could be found or cited.

    Args:
        enumerated: ids the source named in its last sync.
        sectioned: pages that were read without error.
        chunked: pages with at least one chunk.
        excluded: pages left out on purpose, with reasons.
        failed: pages that could not be read, with reasons.
    """
    ids, with_chunks = set(enumerated), set(chunked)
    empty = set(sectioned) - with_chunks - excluded.keys() - failed.keys()
    explained = {**excluded, **dict.fromkeys(sorted(empty & ids), "no text")}
    return CompletenessReport(
        enumerated=len(ids),
        chunked=len(with_chunks & ids),
        excluded={page_id: why for page_id, why in explained.items() if page_id in ids},
        failed={page_id: why for page_id, why in failed.items() if page_id in ids},
        unexplained=tuple(sorted(ids - with_chunks - explained.keys() - failed.keys())),
    )
