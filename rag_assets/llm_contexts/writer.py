"""Request contexts from a language model, many passages at once, and store the good ones.

A passage is retried until its context is good enough, `attempts` times at most; the best stays. A context that invents
a number or a name is none. Failures are reported by passage, and cost the others nothing: when the model does not
answer several passages in a row, the rest is skipped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_assets.llm_contexts.servers import NOBODY, ContextServers, ModelName, ModelReply
from rag_assets.progress import Throughput, duration
from rag_assets.state.content_cache import ContentCache
from rag_assets.steps.contexts.contextualize import NOT_ASKED, WrittenContext
from rag_assets.steps.contexts.prompt import (
    VERSION,
    ContextDocument,
    ContextPassage,
    QualityScore,
    inventions,
    prompt,
    read_answer,
    score_contexts,
)
from rag_serving.artifacts.secret import Seal
from rag_serving.config.models import Context
from rag_serving.hooks import BudgetError, TenantBudget
from rag_serving.models.chat.client import TooLateError
from rag_serving.models.chat.messages import PromptMessage
from rag_serving.models.protocols import ModelError
from rag_serving.text.marks import Fence

FILE = "contexts.sqlite"
SEAL_PURPOSE = "contexts"
_VERSION = 3
_SCHEMA = """
CREATE TABLE contexts (key TEXT PRIMARY KEY, prompt_version INTEGER NOT NULL, model TEXT NOT NULL,
    context TEXT NOT NULL, quality REAL NOT NULL, issues TEXT NOT NULL, tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL, tokens_cached INTEGER NOT NULL, made_at REAL NOT NULL, length REAL, relevance REAL,
    coherence REAL, specificity REAL, place TEXT, seal BLOB) WITHOUT ROWID;
CREATE INDEX places ON contexts (place)
"""
_COLUMNS = "prompt_version, model, context, quality, issues, tokens_in, tokens_out, tokens_cached, made_at"
_MADE_AT = 10  # of an entry: key, place, and the columns above
_SCORES = "length, relevance, coherence, specificity"
_ROWS = f"SELECT {{column}}, key, place, {_COLUMNS}, {_SCORES}, seal FROM contexts WHERE {{column}} IN ({{{{marks}}}})"
_INSERT = f"INSERT OR REPLACE INTO contexts (key, place, {_COLUMNS}, {_SCORES}, seal) VALUES ({', '.join('?' * 16)})"


class ContextCache:
    """The contexts of some models in a folder's `contexts.sqlite`, which other models may share. A context has two
    addresses: its `key` covers the whole prompt, its `place` leaves out the page's title. Of several models' contexts
    the one of the model named first is taken, and of one model's the newest."""

    def __init__(self, folder: Path, *models: str, seal: Seal | None = None) -> None:
        """`seal`: contexts without it count as absent; None: writers of the file are trusted."""
        self.path = folder / FILE
        self.models = models
        self._seal = seal
        self._file = ContentCache(self.path, _SCHEMA, _VERSION)

    def lookup(self, keys: Sequence[str]) -> dict[str, WrittenContext]:
        """Return the contexts of these passages, whatever prompt they were written by. Raises ModelError: the file
        cannot be used."""
        return self._lookup("key", keys)

    def lookup_places(self, places: Sequence[str]) -> dict[str, WrittenContext]:
        """Return contexts of the same text at the same place of the same page, under any title; see `lookup`."""
        return self._lookup("place", places)

    def remember(self, written: Mapping[str, WrittenContext], places: Mapping[str, str]) -> None:
        """Store contexts by the keys of their passages, with their places by key, in one transaction. Raises
        ModelError: the file cannot be used."""
        rows = [(*row, self._seal.of(_sealed(row)) if self._seal else None) for row in _rows(written, places)]
        self._file.run(lambda database: database.executemany(_INSERT, rows), None)

    def _lookup(self, column: str, keys: Sequence[str]) -> dict[str, WrittenContext]:
        addresses = {_address(model, key): (rank, key) for rank, model in enumerate(self.models) for key in keys}
        cached: dict[str, tuple[tuple[int, float], WrittenContext]] = {}

        def read(database: sqlite3.Connection) -> None:
            for address, *row in self._file.lookup(database, _ROWS.format(column=column), list(addresses)):
                *entry, seal = row
                if self._seal and not self._seal.holds(seal, _sealed(entry)):
                    continue
                (rank, key), context = addresses[address], _context(entry[2:])
                order = rank, -context.made_at
                if key not in cached or order < cached[key][0]:
                    cached[key] = order, context

        self._file.run(read, None)
        return {key: context for key, (_, context) in cached.items()}


def _sealed(row: Sequence[object]) -> bytes:
    """Return the sealed bytes of an entry: all but its time, with numbers as the file returns them."""
    covered = [*row[:_MADE_AT], *row[_MADE_AT + 1 :]]
    return json.dumps([float(value) if isinstance(value, int) else value for value in covered]).encode()


def _address(model: str, key: str) -> str:
    return hashlib.sha256(f"{model}\0{key}".encode()).hexdigest()[:32]


def _rows(written: Mapping[str, WrittenContext], places: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    for key, context in written.items():
        model = ModelName(context.provider, context.model).key
        yield (
            _address(model, key),
            _address(model, places[key]),
            context.prompt_version,
            model,
            context.text,
            context.quality,
            json.dumps(context.issues),
            context.tokens_in,
            context.tokens_out,
            context.tokens_cached,
            context.made_at,
            *(context.scores or (None,) * 4),
        )


def _context(row: Sequence[Any]) -> WrittenContext:
    version, model, text, quality, issues, tokens_in, tokens_out, tokens_cached, made_at, *scores = row
    name = ModelName.of(model)
    return WrittenContext(
        text,
        quality,
        tuple(json.loads(issues)),
        version,
        tokens_in,
        tokens_out,
        tokens_cached,
        name.provider,
        name.model,
        made_at,
        None if None in scores else tuple(scores),
    )


@dataclass
class ContextUsage:
    """Counts of one run; `total` is the number of passages to request."""

    total: int
    done: int = 0
    failed: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: float = 0.0  # in the currency of the price table; nothing for a model without a price
    written_by: Counter[str] = field(default_factory=Counter)  # contexts by model
    started: float = field(default_factory=time.monotonic)
    _throughput: Throughput = field(default_factory=Throughput, repr=False)

    @property
    def handled(self) -> int:
        return self.done + self.failed

    @property
    def seconds(self) -> float:
        """The elapsed time, never zero."""
        return max(time.monotonic() - self.started, 1e-9)

    @property
    def rate(self) -> float:
        """Passages a second."""
        return self.handled / self.seconds

    def count(self, done: int = 0, failed: int = 0) -> None:
        """Take in passages that were written about, and passages that were not."""
        self.done += done
        self.failed += failed
        self._throughput.report(self.handled, self.total)

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take at the pace of late, None before enough is known."""
        now = self._throughput.estimate
        return now.seconds_left if now else None

    def line(self) -> str:
        """Return all of it on one line of a log."""
        left = f", {duration(self.left_s)} left" if self.left_s is not None and self.handled < self.total else ""
        cached = f" ({self.tokens_cached:,} from the prompt cache)" if self.tokens_cached else ""
        return (
            f"contexts {self.handled}/{self.total}, {self.failed} failed, {self.rate:.1f}/s{left}; "
            f"{self.tokens_in:,} tokens in{cached}, {self.tokens_out:,} out, cost {self.cost:.4f}"
        )

    def facts(self) -> dict[str, int | float | dict[str, int]]:
        """Return the same for a machine."""
        return {
            "contexts_wanted": self.total,
            "contexts_generated": self.done,
            "contexts_failed": self.failed,
            "retries": self.retries,
            "rate_per_second": round(self.rate, 2),
            "seconds_left": round(self.left_s or 0.0, 1),
            "tokens_in": self.tokens_in,
            "tokens_cached": self.tokens_cached,
            "tokens_out": self.tokens_out,
            "cost": round(self.cost, 6),
            "written_by": dict(self.written_by),
        }


@dataclass(frozen=True)
class Call:
    """Passages of one document in one call."""

    document: ContextDocument
    indexes: tuple[int, ...]

    @property
    def passages(self) -> list[ContextPassage]:
        return [self.document.passages[index] for index in self.indexes]


def calls_about(documents: Sequence[ContextDocument], known: Collection[str], size: int) -> list[Call]:
    """Return the calls for the passages without a context; a repeated passage of a document is requested once."""
    calls = []
    for document in documents:
        first = {passage.key: index for index, passage in reversed([*enumerate(document.passages)])}
        missing = sorted(index for key, index in first.items() if key not in known)
        calls += [Call(document, tuple(missing[at : at + size])) for at in range(0, len(missing), size)]
    return calls


def known_contexts(cache: ContextCache, documents: Sequence[ContextDocument]) -> dict[str, WrittenContext]:
    """Return the known contexts, by the keys of their passages. A renamed page keeps its contexts, except those that
    mention words of the old title alone. Raises ModelError: the cache cannot be used."""
    passages = {passage.key: (passage, document) for document in documents for passage in document.passages}
    known = cache.lookup([*passages])
    missing = {key: place for key, place in passages.items() if key not in known}
    places = cache.lookup_places([passage.place for passage, _ in missing.values()])
    renamed = {
        key: places[passage.place]
        for key, (passage, document) in missing.items()
        if passage.place in places and not inventions(places[passage.place].text, f"{passage.text}\n{document.text}")
    }
    if renamed:
        cache.remember(renamed, {key: passages[key][0].place for key in renamed})
    return {**known, **renamed}


COMMIT_CONTEXTS = 50  # what a killed run loses at most, beside what is in flight
COMMIT_S = 2.0
FAILURES_IN_A_ROW = 10
_PREAMBLE_TOKENS = 700  # the task, the passage itself and its question
_log = logging.getLogger(__name__)
Watch = Callable[[ContextUsage], None]


def _unwatched(tally: ContextUsage) -> None:
    """Nobody looks at the tally."""


@dataclass(frozen=True)
class Contexts:
    """Contexts by the key of their passage (of a tenant: by chunk id), why there is none for others, what it took."""

    written: Mapping[str, WrittenContext] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    tally: ContextUsage = field(default_factory=lambda: ContextUsage(0))


@dataclass
class _Best:
    text: str = ""
    score: QualityScore | None = None
    by: ModelName = NOBODY
    why: str = "the model wrote nothing about it"

    def offer(self, text: str, score: QualityScore, by: ModelName) -> None:
        """Take an answer if it is better; one that invents is none."""
        if score.invented:
            self.why = f"it invents {', '.join(score.invented[:3])}"
        elif not score.relevance:
            self.why = "it has none of the passage's key terms"
        elif self.score is None or score.overall > self.score.overall:
            self.text, self.score, self.by = text, score, by

    @property
    def accepted(self) -> bool:
        return self.score is not None and self.score.accepted


@dataclass
class _TokensSpent:
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: float = 0.0

    def add(self, answer: ModelReply) -> None:
        tokens_in, tokens_out = answer.reply.prompt_tokens, answer.reply.completion_tokens
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.tokens_cached += answer.reply.cached_tokens
        self.cost += answer.price.of(tokens_in, tokens_out) if answer.price else 0.0


@dataclass
class ContextWriter:
    """Writes the contexts of one build."""

    settings: Context
    cache: ContextCache
    servers: ContextServers
    watch: Watch = field(default=_unwatched)
    budget: TenantBudget | None = None  # checked before every call

    def write(
        self, documents: Sequence[ContextDocument], known: Mapping[str, WrittenContext] | None = None
    ) -> Contexts:
        """Return the contexts of all passages, from the cache if it has them; `known` are those, if they were looked
        up. Raises ModelError: the cache cannot be used; a model that fails is no error."""
        if known is None:
            known = known_contexts(self.cache, documents)
        calls = calls_about(documents, known, self.settings.chunks_per_call)
        run = _Run(self, ContextUsage(sum(len(call.indexes) for call in calls)))
        if calls:
            asyncio.run(run.all(calls))
        return Contexts({**known, **run.written}, run.failures, run.tally)


class _Run:
    """The calls of one `write`, in an event loop."""

    def __init__(self, writer: ContextWriter, tally: ContextUsage) -> None:
        self._of, self.tally = writer, tally
        self.written: dict[str, WrittenContext] = {}
        self.failures: dict[str, str] = {}
        self._fence = Fence.new()  # one for all calls: what prompts have in common is read once by servers that cache
        self._unsaved: dict[str, WrittenContext] = {}
        self._places: dict[str, str] = {}
        self._failed_in_a_row = 0
        self._down = ""

    async def all(self, calls: Sequence[Call]) -> None:
        """Run every call, `max_workers` at once; results are stored even if this is interrupted."""
        waiting = iter(calls)
        workers = min(self._of.settings.max_workers, len(calls))
        saver = asyncio.create_task(self._save_regularly())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(waiting))
        finally:
            saver.cancel()
            self._save()
            self._of.watch(self.tally)

    async def _work(self, waiting: Iterator[Call]) -> None:
        for call in waiting:  # one iterator for all workers
            if self._of.budget and not self._down:
                self._down = await asyncio.to_thread(_refusal, self._of.budget)
            if self._down:
                self._fail(call.passages, self._down)
                continue
            try:
                await self._ask(call)
            except Exception as error:  # one passage must not end the others, whatever is wrong with it
                _log.warning("contexts: %s: %s", type(error).__name__, error)
                self._fail(call.passages, f"{NOT_ASKED}{type(error).__name__}: {error}")

    async def _ask(self, call: Call) -> None:
        best = {index: _Best() for index in call.indexes}
        brief, spent = False, _TokensSpent()
        advice: tuple[str, ...] = ()
        for attempt in range(self._of.settings.attempts):
            open_ = [index for index in call.indexes if not best[index].accepted]
            if not open_ or self._down:
                break
            self.tally.retries += attempt > 0
            text = prompt(call.document, open_, self._fence, advice)
            try:
                answer = await self._of.servers.ask([PromptMessage("user", text)], brief)
            except TooLateError as error:
                brief = True
                self._count_failure(error, best, open_)
                continue
            except ModelError as error:
                self._count_failure(error, best, open_)
                break
            self._failed_in_a_row = 0
            spent.add(answer)
            said = answer
            answers = read_answer(said.reply.text, len(open_))
            written = [(index, text) for index, text in zip(open_, answers, strict=True) if text]
            chunks = [call.document.passages[index].text for index, _ in written]
            scores = score_contexts([text for _, text in written], chunks, [call.document.text] * len(written))
            for (index, text), score in zip(written, scores, strict=True):
                best[index].offer(text, score, said.by)
            advice = tuple(
                dict.fromkeys(hint for score in scores if not score.accepted for hint in score.recommendations)
            )
        self._settle(call, best, spent)
        if self._of.budget:
            tokens = spent.tokens_in + spent.tokens_out
            await asyncio.to_thread(self._of.budget.spend, "contexts", tokens, spent.cost)

    def _settle(self, call: Call, best: Mapping[int, _Best], spent: _TokensSpent) -> None:
        self.tally.tokens_in += spent.tokens_in
        self.tally.tokens_out += spent.tokens_out
        self.tally.tokens_cached += spent.tokens_cached
        self.tally.cost += spent.cost
        share = len(call.indexes)
        tokens = (spent.tokens_in // share, spent.tokens_out // share, spent.tokens_cached // share)
        for index in call.indexes:
            passage, best_context = call.document.passages[index], best[index]
            if best_context.score is None:
                self._fail([passage], best_context.why)
                continue
            score, by = best_context.score, (best_context.by.provider, best_context.by.model)
            context = WrittenContext(
                best_context.text, score.overall, score.issues, VERSION, *tokens, *by, time.time(), score.components
            )
            self.written[passage.key] = self._unsaved[passage.key] = context
            self._places[passage.key] = passage.place
            self.tally.written_by[best_context.by.key] += 1
            self.tally.count(done=1)
        if len(self._unsaved) >= COMMIT_CONTEXTS:
            self._save()
        self._of.watch(self.tally)

    def _count_failure(self, error: ModelError, best: Mapping[int, _Best], open_: Sequence[int]) -> None:
        for index in open_:
            best[index].why = str(error)
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= max(FAILURES_IN_A_ROW, self._of.settings.max_workers) and not self._down:
            self._down = f"not asked: the model failed {self._failed_in_a_row} times in a row ({error})"
            _log.warning("contexts: %s", self._down)

    def _fail(self, passages: Sequence[ContextPassage], why: str) -> None:
        self.failures.update((passage.key, why) for passage in passages)
        self.tally.count(failed=len(passages))
        self._of.watch(self.tally)

    async def _save_regularly(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            self._save()

    def _save(self) -> None:
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            self._of.cache.remember(unsaved, self._places)


def _refusal(budget: TenantBudget) -> str:
    """Return why the budget forbids requests now; empty if it does not."""
    try:
        budget.check()
    except BudgetError as error:
        return f"{NOT_ASKED}{error}"
    return ""


def document_budget(settings: Context) -> int:
    """Return the tokens that a document may have in a prompt, whichever model reads it."""
    size = settings.chunks_per_call
    spare = min(
        model.context_tokens - model.max_output_tokens * size for model in (settings, settings.fallback) if model
    )
    return max(500, spare - _PREAMBLE_TOKENS * (1 + size))
