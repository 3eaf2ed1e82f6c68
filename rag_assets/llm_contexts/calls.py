"""The calls that passages without a context need.

Belongs here: which passages are asked about together. Does not belong here: asking (`writer`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rag_assets.steps.contexts.prompt import Document, Passage


@dataclass(frozen=True)
class Call:
    """Passages of one document that are asked about together."""

    document: Document
    indexes: tuple[int, ...]

    @property
    def passages(self) -> list[Passage]:
        return [self.document.passages[index] for index in self.indexes]


def calls_about(documents: Sequence[Document], known: Collection[str], size: int) -> list[Call]:
    """Return the calls for the passages that have no context; one that a document has twice is asked about once."""
    calls = []
    for document in documents:
        first = {passage.key: index for index, passage in reversed([*enumerate(document.passages)])}
        missing = sorted(index for key, index in first.items() if key not in known)
        calls += [Call(document, tuple(missing[at : at + size])) for at in range(0, len(missing), size)]
    return calls
