"""The published generation, open for one question as its reader may see it.

Belongs here: how long it stays open, what a question is told of pages that are old, fetched or away. Does not belong
here: which generation is published (`indexes.current`), fetching it from an object store (`object_home.follower`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rag_serving.access.principals import Principal
from rag_serving.degradation.phases import Phases
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.databases import RemoteError
from rag_serving.indexes.protocols import ReaderView
from rag_serving.retrieval.hybrid import RetrievalError
from rag_serving.tracing import StageTrace

if TYPE_CHECKING:
    from rag_serving.object_home.follower import Follower

STALE = "stale_generation"
BEING_FETCHED = "the pages are being fetched; try again shortly"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """The published generation as a reader may see it, with the reader classes that it knows."""

    view: ReaderView
    known: frozenset[str]


@contextmanager
def opened_pages(
    published: CurrentGeneration, followed: Follower | None, principal: Principal, trace: StageTrace, phases: Phases
) -> Iterator[Opened]:
    """Yield the pages as a principal may see them; they stay open until the block ends, and until the last search that
    was left behind has ended.

    `followed`: what fetches them from an object store, None where nothing does.

    Raises:
        UnpublishedError: there is no generation to read.
        RetrievalError: the database that holds it cannot answer.
    """
    lease, tenant = ExitStack(), principal.tenant
    if followed and followed.staleness(tenant):
        trace.raise_flag(STALE)
    try:
        generation = lease.enter_context(published.acquire(partial(trace.raise_flag, STALE)))
    except UnpublishedError as error:
        if followed and followed.awaited(tenant, has_older=False):
            raise UnpublishedError(BEING_FETCHED) from error
        raise
    try:
        yield Opened(generation.for_reader(principal), generation.classes_for(principal))
    except RemoteError as error:
        _log.error("the database of `index`: %s", error)
        raise RetrievalError("the database of the pages cannot answer") from error
    finally:
        phases.release(lease)
