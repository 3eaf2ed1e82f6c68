"""One question on its way through its stages: its inputs, and each stage's results for later ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rag_serving.answering.answerer import Answering
from rag_serving.answering.composing import AnswerTrace
from rag_serving.caching.memory import CachePlace
from rag_serving.config.loading import Config
from rag_serving.conversations.turns import Conversation, QuestionRequest
from rag_serving.degradation.phases import Phases
from rag_serving.indexes.view import ReaderView
from rag_serving.models.protocols import Embedder
from rag_serving.pipeline.locked import Locked
from rag_serving.records.answers import Answer, Checked, SearchResults, Status
from rag_serving.records.queries import Filters
from rag_serving.retrieval.hybrid import Mode
from rag_serving.sets.history import Now
from rag_serving.telemetry.events import Trace
from rag_serving.tracing import StageTrace

if TYPE_CHECKING:
    from rag_serving.models.reranker_client import RemoteReranker
    from rag_serving.pipeline.tenant import TenantServices
    from rag_serving.rendering.cited import CitedPlaces

Result = TypeVar("Result")
Stages = Sequence[Callable[["Inquiry"], None]]


@dataclass
class Inquiry:
    """One question. A stage that reads a result of no earlier stage fails with an `AttributeError`.

    Attributes:
        stages: the remaining ones.
        count: results of a search.
        is_read: whether it was resolved in its conversation, if it has one.
        within: filters of every question of its conversation that has none of its own.
        lease: resources to close when the pages have been read.
        mode: the mode of the search; stages before it do not read this.
        known: reader classes of the generation.
        place: its key in the answer cache.
        places: locates quotes on the pages of PDF files; None: not available.
        cited: the answer, with its citations as readers see them.
        instead: status and text in place of the answer.
        embedder: embeds its text; None: that of its tenant, with cached vectors.
        now: the published pages, if it asks an earlier generation.
    """

    tenant: TenantServices
    request: QuestionRequest
    trace: StageTrace
    stages: Stages
    conversation: Conversation = field(default_factory=Conversation)
    selection: str = ""
    quotes: Sequence[str] = ()
    count: int = 0
    is_read: bool = True
    within: Filters | None = None
    lease: ExitStack = field(default_factory=ExitStack)
    mode: Mode = "hybrid"
    place: CachePlace | None = None
    instead: tuple[Status, str] | None = None
    embedder: Embedder | None = None
    now: Now | None = None
    config: Config = field(init=False)
    answering: Answering = field(init=False)
    places: CitedPlaces | None = field(init=False)
    recorded: Trace = field(init=False)
    phases: Phases = field(init=False)
    view: ReaderView = field(init=False)
    known: frozenset[str] = field(init=False)
    locked: Locked = field(init=False)
    written: AnswerTrace = field(init=False)
    cited: Answer = field(init=False)
    answer: Answer = field(init=False)
    results: SearchResults = field(init=False)
    checked: Checked = field(init=False)

    def __post_init__(self) -> None:
        tenant = self.tenant
        self.config, self.answering, self.places = tenant.config, tenant.answering, tenant.cited
        self.recorded = Trace(features=self.config.features.enabled)

    def run(self) -> None:
        """Go through the stages that are left."""
        with self.lease:
            while self.stages:
                stage, *self.stages = self.stages
                stage(self)

    def in_phase(self, find: Callable[[Inquiry], Result]) -> Result:
        """Return the result of a search in the first phase that answers; each has a trace of its own."""
        run = self.phases.run
        return run(lambda mode, part: find(self.variant(mode=mode, trace=part)), self.view.id, self.trace)

    def variant(self, **changes: Any) -> Inquiry:
        """Return a copy that goes on by itself, with some attributes changed."""
        other = copy(self)
        vars(other).update(changes)
        return other

    @property
    def vectors(self) -> Embedder:
        """The embedder of the asker's questions, with their recent vectors."""
        return self.embedder or self.tenant.memory.vectors.of(self.request.principal.user)

    @property
    def reranker(self) -> RemoteReranker | None:
        """The sidecar, where the question is to be reranked."""
        return self.tenant.sidecar if self.config.features.FEATURE_RERANKER else None
