"""How much of what is published whoever asks may read, as a note below an answer in the terminal.

Belongs here: the note. Does not belong here: HTTP. Whoever uses the terminal can read the whole home folder anyway; a
caller of the API is never told how many passages there are that he may not read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rag_serving.access.principals import Principal
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.databases import RemoteError
from rag_serving.retrieval.search import NOTHING_READABLE

if TYPE_CHECKING:
    from rag_serving.ask import Pipeline
    from rag_serving.records.answers import Answer, SearchResults

    Noted = TypeVar("Noted", Answer, SearchResults)


def with_access_note(pipeline: Pipeline, principal: Principal, noted: Noted) -> Noted:
    """Return an answer or results with a note that counts what the principal may read, unless that is everything."""
    try:
        with pipeline.published.acquire() as generation:
            readable, total = len(generation.for_reader(principal)), len(generation)
    except (UnpublishedError, RemoteError):
        return noted
    if readable == total:
        return noted
    notes = [access_note(principal, readable, total), *(noted.notes or ())]
    return replace(noted, notes=tuple(note for note in notes if note != NOTHING_READABLE))


def access_note(principal: Principal, readable: int, total: int) -> str:
    """Return the note: `0 of 210 passages are readable for you (`--user` and `--group` say who asks)`."""
    counts = f"{readable:,} of {total:,} passages are readable for"
    if not principal.names:
        return f"{counts} you (`--user` and `--group` say who asks)"
    return f"{counts} {', '.join(sorted(principal.names))} (`citelock readers explain PAGE` says why)"
