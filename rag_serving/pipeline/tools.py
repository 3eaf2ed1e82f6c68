"""What the stages of one question share: settings, models, who writes the answer.

Belongs here: what they are. Does not belong here: opening them (`pipeline.pipeline`), their order (`pipeline.answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_serving.answering.answerer import Answering
from rag_serving.config.loading import Config
from rag_serving.degradation.phases import Phases
from rag_serving.models.embedding.recent_vectors import RecentVectors
from rag_serving.records.passages import Candidate
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.search import Search

if TYPE_CHECKING:
    from rag_serving.models.reranker_client import RemoteReranker
    from rag_serving.rendering.cited import CitedPlaces


def best_passages(search: Search) -> Iterable[Candidate]:
    """Return what a search ranked, best first; who stops early leaves the rest unread."""
    return search.context.passages.candidates(search.ranking)


@dataclass(frozen=True)
class Tools:
    """What a question is answered with, the same from its beginning to its end.

    Attributes:
        is_word: says which words are never misspelt, though no passage holds them.
        mode: what is searched; stages before the passages are looked for do not read it.
        phases: the phases that it is searched in, one after the other until one answers.
        reranker: the sidecar, where it is switched on.
        cited: finds quotes on the pages of PDF files; None: nobody does.
        is_recorded: whether telemetry is kept.
        passages: gives what the lock chooses from.
    """

    config: Config
    mode: Mode
    vectors: RecentVectors
    is_word: Callable[[str], bool]
    phases: Phases
    reranker: RemoteReranker | None
    answering: Answering
    cited: CitedPlaces | None
    is_recorded: bool
    passages: Callable[[Search], Iterable[Candidate]] = best_passages
