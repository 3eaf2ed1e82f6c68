"""Stored sessions as they are handed over: what is kept of a question, lines of a list, turns that are shown.

Belongs here: plain immutable records and their JSON shapes. Does not belong here: keeping them (`store`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_serving.records.answers import Answer
from rag_serving.records.queries import Filters


@dataclass(frozen=True)
class Exchange:
    """A question and its answer as they are kept."""

    question: str
    answer: Answer
    filters: Filters | None = None
    context: str | None = None  # the text that was selected, where the question was asked of one
    mode: str = "corpus"  # as the API names it


@dataclass(frozen=True)
class SessionLine:
    """A session in a list."""

    session_id: str
    created_at: str
    last_active: str
    questions: int
    title: str  # its first question

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return dict(vars(self))


@dataclass(frozen=True)
class StoredTurn:
    """A question with its answer as they were stored; who may see the answer is to be asked."""

    question: str
    context: str | None
    answer: str
    facts: Mapping[str, Any]  # the columns that are no text
    sources: Sequence[Mapping[str, Any]]

    @property
    def chunks(self) -> list[tuple[str, str]]:
        """Return page id and chunk id of everything that the answer cites."""
        return [(str(source["page_id"]), str(source["chunk_id"])) for source in self.sources]

    def may_be_told(self, may_read: bool) -> bool:
        """Return whether the answer may be shown to who may read what it cites, or may not.

        What rests on a text that the asker selected is the asker's own; a question back names pages that it does not
        cite.
        """
        if self.context is not None:
            return True
        return may_read and self.facts["status"] != "clarify"

    def payload(self, is_readable: bool) -> dict[str, Any]:
        """Return the JSON shape; of an answer that its reader may not read any more only that there was one."""
        told: dict[str, Any] = {"answer": self.answer, "sources": [dict(source) for source in self.sources]}
        shown = told if is_readable else {"answer": None, "sources": []}
        return {
            "question": self.question,
            "context_text": self.context,
            **self.facts,
            **shown,
            "withheld": not is_readable,
        }
