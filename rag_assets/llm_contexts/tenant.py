"""The contexts of one tenant: the estimate for its build, and the run; or of one passage, without a cache."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from rag_assets.llm_contexts.servers import model_name, models_of, open_servers, price_of
from rag_assets.llm_contexts.writer import (
    SEAL_PURPOSE,
    ContextCache,
    Contexts,
    ContextUsage,
    ContextWriter,
    Watch,
    calls_about,
    document_budget,
    known_contexts,
)
from rag_assets.monitoring.alerts import ERROR_CHARS, is_nth_alert
from rag_assets.progress import duration
from rag_assets.steps.contexts.contextualize import WrittenContext, metadata_prefix
from rag_assets.steps.contexts.prompt import ContextDocument, build_documents, prompt
from rag_serving.artifacts.secret import Seal, SecretError
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json
from rag_serving.config.models import Context
from rag_serving.hooks import TenantBudget
from rag_serving.models.protocols import ModelError
from rag_serving.records.passages import Chunk
from rag_serving.text.marks import Fence

CHARS_PER_TOKEN = 4
SAMPLED_CALLS = 200
TOKENS_OUT = 110  # 50 to 100 words and their surroundings
SECONDS_A_CALL = {"ollama": (1.0, 2.0), "openai": (0.5, 1.0)}
"""What one call takes where nothing was measured, as the contextual-retrieval design has it."""


@dataclass(frozen=True)
class ContextEstimate:
    """The estimate for the next run; tokens are guessed from characters, as only the model's tokenizer counts them."""

    chunks: int
    wanted: int  # passages that have no context; the same passage twice in a page counts once
    calls: int
    tokens_in: int
    tokens_out: int
    attempts: int  # retries of an answer that is not good enough
    costs: Mapping[str, float | None] = field(default_factory=dict)  # by model, if it writes all; None: no price is set
    seconds: tuple[float, float] = (0.0, 0.0)
    measured: bool = False  # whether `seconds` rest on the last run

    def facts(self) -> dict[str, Any]:
        """Return it for a machine."""
        return {
            "chunks": self.chunks,
            "contexts_wanted": self.wanted,
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": dict(self.costs),
            "cost_at_most": {model: cost and cost * self.attempts for model, cost in self.costs.items()},
            "seconds": list(self.seconds),
            "seconds_measured": self.measured,
        }

    def line(self) -> str:
        """Return it for people."""
        if not self.wanted:
            return f"all {self.chunks} chunks have a context: no model will be asked"
        first, *others = (_cost(model, cost) for model, cost in self.costs.items())
        costs = "".join([first, *(f" (should the fallback write all: {other})" for other in others)])
        again = f", up to {self.attempts} times as much where answers are poor" if self.attempts > 1 else ""
        basis = "at the pace of the last run" if self.measured else "a guess, as nothing was measured yet"
        return (
            f"{self.wanted} of {self.chunks} chunks need a context: about {self.tokens_in:,} tokens in and "
            f"{self.tokens_out:,} out in {self.calls} calls; {costs}{again}; {_span(self.seconds)} ({basis})"
        )


def estimate(
    documents: Sequence[ContextDocument], known: Collection[str], settings: Context, rate: float | None = None
) -> ContextEstimate:
    """Return the estimate for the passages without a context; `known`: keys of the others, `rate`: contexts a second of
    the last run, None: not measured."""
    calls = calls_about(documents, known, settings.chunks_per_call)
    wanted = sum(len(call.indexes) for call in calls)
    step, fence = max(1, len(calls) // SAMPLED_CALLS), Fence.new()
    lengths = [len(prompt(call.document, call.indexes, fence)) for call in calls[::step]]
    tokens_in = (round(sum(lengths) * len(calls) / len(lengths)) if lengths else 0) // CHARS_PER_TOKEN
    tokens_out = TOKENS_OUT * wanted
    costs: dict[str, float | None] = {}
    for model in models_of(settings).values():
        name, price = model_name(model), price_of(settings, model)
        free = 0.0 if name.provider == "ollama" else None
        costs[name.key] = round(price.of(tokens_in, tokens_out), 6) if price else free
    return ContextEstimate(
        chunks=sum(len(document.passages) for document in documents),
        wanted=wanted,
        calls=len(calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        attempts=settings.attempts,
        costs=costs,
        seconds=_seconds(settings, wanted, len(calls), rate),
        measured=bool(rate),
    )


def _seconds(settings: Context, wanted: int, calls: int, rate: float | None) -> tuple[float, float]:
    if rate:
        return round(wanted / rate, 1), round(wanted / rate, 1)
    least, most = SECONDS_A_CALL["ollama" if settings.provider == "ollama" else "openai"]
    rounds = calls / min(settings.max_workers, max(calls, 1))
    return round(rounds * least, 1), round(rounds * most, 1)


def _cost(model: str, cost: float | None) -> str:
    if cost is None:
        return f"{model} has no price (`context.prices`)"
    return f"{model} costs {cost:.4f}" if cost else f"{model} costs nothing"


def _span(seconds: tuple[float, float]) -> str:
    least, most = (duration(limit) for limit in seconds)
    return least if least == most else f"{least} to {most}"


FILE = "contexts.json"
MEASURED = 20
"""Contexts that a run has to write for its pace to be a measure."""


class LastRun(BaseModel):
    """The number of chunks without a model's context, the most frequent reason, and the pace by model. `failed_runs`:
    the number of runs in a row that left such chunks."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    failures: int = 0
    reason: str = ""
    failed_runs: int = 0
    contexts_per_second: dict[str, float] = {}


def note_run(store: Store, tenant: str, failures: Mapping[str, str], tally: ContextUsage | None = None) -> LastRun:
    """Store the facts for the next build; `failures` are reasons by chunk id."""
    reason = Counter(failures.values()).most_common(1)[0][0] if failures else ""
    before = read_last_run(store, tenant)
    paces, failed_runs = dict(before.contexts_per_second), before.failed_runs + 1 if failures else 0
    if tally and tally.done >= MEASURED:
        paces[tally.written_by.most_common(1)[0][0]] = round(tally.done / tally.seconds, 3)
    run = LastRun(failures=len(failures), reason=reason, failed_runs=failed_runs, contexts_per_second=paces)
    write_json(store.tenant(tenant) / FILE, run.model_dump())
    return run


def read_last_run(store: Store, tenant: str) -> LastRun:
    """Return the last build's facts; empty if unreadable."""
    try:
        noted: Any = read_json(store.tenant(tenant) / FILE)
        return LastRun.model_validate(noted)
    except (StoreError, ValidationError):
        return LastRun()


def has_failures(store: Store, tenant: str) -> bool:
    """Return whether the last build left chunks without a context of the model."""
    return bool(read_last_run(store, tenant).failures)


REASONS = 3
CHUNKS = 20
"""Chunks that an event names; the asset's page and `contexts.parquet` have the reasons of all."""


def contexts_event(
    tenant: str, failures: Mapping[str, str], before: LastRun, after: LastRun, now: datetime
) -> dict[str, Any] | None:
    """Return the event of a run, or None without news: the first run that left chunks without a context, the second,
    the fourth, the eighth … in a row, and the one after which none is left. `failures`: by chunk id the reason why the
    model wrote none."""
    head = {"time": now.astimezone(UTC).isoformat(timespec="seconds"), "tenant": tenant}
    if not failures:
        text = f"contexts of {tenant} are written again: every chunk has one"
        return {"event": "contexts_written_again", "text": text, **head} if before.failures else None
    if not is_nth_alert(after.failed_runs):
        return None
    times = f", {after.failed_runs} builds in a row" if after.failed_runs > 1 else ""
    reason = after.reason if len(after.reason) <= ERROR_CHARS else f"{after.reason[: ERROR_CHARS - 1]}…"
    return {
        "event": "contexts_failed",
        "text": f"contexts of {tenant}: {len(failures)} chunks have none of the model{times}: {reason}; "
        "`citelock build --retry-contexts` asks again",
        **head,
        "contexts_failed": len(failures),
        "failures_in_a_row": after.failed_runs,
        "reasons": {why[:ERROR_CHARS]: count for why, count in Counter(failures.values()).most_common(REASONS)},
        "chunks": sorted(failures)[:CHUNKS],
    }


TOLD_S = 5.0


@dataclass(frozen=True)
class ContextPlan:
    """The work of a run: all passages, and their existing contexts."""

    settings: Context
    cache: ContextCache
    documents: Sequence[ContextDocument]
    known: Mapping[str, WrittenContext]

    def estimate(self, last: LastRun) -> ContextEstimate:
        """Return the estimate of the run."""
        rate = last.contexts_per_second.get(self.cache.models[0])
        return estimate(self.documents, self.known, self.settings, rate)


def plan_contexts(chunks: pa.Table, settings: Context, folder: Path, home: Path | None = None) -> ContextPlan | None:
    """Return the contexts to write for rows of SELECTED_CHUNKS; None without a configured model. No model is contacted.
    `folder`: of the tenant's caches; `home`: its secret seals them. Raises ModelError: the cache cannot be used."""
    models = models_of(settings)
    if not models:
        return None
    documents = build_documents(chunks, document_budget(settings))
    try:
        seal = Seal(home, SEAL_PURPOSE) if home else None
    except SecretError as error:
        raise ModelError(f"cached contexts cannot be authenticated: {error}") from error
    cache = ContextCache(folder, *(model_name(model).key for model in models.values()), seal=seal)
    return ContextPlan(settings, cache, documents, known_contexts(cache, documents))


def write_contexts(plan: ContextPlan | None, watch: Watch, budget: TenantBudget | None = None) -> Contexts:
    """Return the contexts of a plan, those that it lacks by the configured models, as long as the budget allows. Raises
    ModelError: no model is named, its key is missing, or the cache cannot be used."""
    if plan is None:
        return Contexts()
    writer = ContextWriter(plan.settings, plan.cache, open_servers(plan.settings), watch, budget)
    result = writer.write(plan.documents, plan.known)
    passages = [passage for document in plan.documents for passage in document.passages]
    return Contexts(
        {each.chunk_id: result.written[each.key] for each in passages if each.key in result.written},
        {each.chunk_id: result.failures[each.key] for each in passages if each.key in result.failures},
        result.tally,
    )


@dataclass
class UsageReporter:
    """Tells of a tally: every step to a bar, every few seconds a line to a log and facts to the asset's page."""

    advance: Callable[[int, int], None]
    say: Callable[[str], object]
    observe: Callable[[dict[str, Any]], object]
    told_at: float = field(default_factory=time.monotonic)

    def __call__(self, tally: ContextUsage) -> None:
        self.advance(tally.handled, tally.total)
        now = time.monotonic()
        if now - self.told_at >= TOLD_S:
            self.told_at = now
            self.say(tally.line())
            self.observe(dict(tally.facts()))


@dataclass(frozen=True)
class Preview:
    """The lines above a passage in the index: its place by metadata, and what a model wrote about it."""

    prefix: str
    written: WrittenContext | None = None
    failure: str | None = None  # why no model wrote anything; None also if none is configured


def preview(chunk: Chunk, page: Sequence[Chunk], settings: Context) -> Preview:
    """Return the context of a chunk among those of its `page`, by the models of the configuration. Its own cache is
    empty and forgotten: no build ever sees it, whatever the readers of these chunks. Raises ModelError: no model is
    named, or its key is missing."""
    prefix = metadata_prefix(chunk.title, chunk.heading_path, chunk.chapter)
    models = models_of(settings)
    if not models:
        return Preview(prefix)
    table = pa.Table.from_pylist([_row(one) for one in page])
    documents = build_documents(table, document_budget(settings))
    passages = [passage for document in documents for passage in document.passages]
    asked = next(passage for passage in passages if passage.chunk_id == chunk.chunk_id)
    known = {passage.key: WrittenContext("", 1.0) for passage in passages if passage.key != asked.key}
    with tempfile.TemporaryDirectory(prefix="citelock-preview-") as folder:
        cache = ContextCache(Path(folder), *(model_name(model).key for model in models.values()))
        contexts = ContextWriter(settings, cache, open_servers(settings)).write(documents, known)
    return Preview(prefix, contexts.written.get(asked.key), contexts.failures.get(asked.key))


def _row(chunk: Chunk) -> dict[str, object]:
    return {
        "page_id": chunk.page_id,
        "readers": "",  # for one caller, who may read them all
        "chunk_idx": chunk.chunk_idx,
        "chunk_id": chunk.chunk_id,
        "title": chunk.title,
        "heading_path": list(chunk.heading_path),
        "text": chunk.text,
    }
