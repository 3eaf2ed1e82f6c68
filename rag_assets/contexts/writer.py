"""Asks a language model for contexts, many passages at once, and keeps what was good.

A passage is asked about until its context is good enough, `attempts` times at most; the best stays. A context that
invents a number or a name is none. What failed is told by passage, and costs nobody else anything: when the model does
not answer several passages in a row, the rest is not asked about at all.

Belongs here: calls in flight, second tries, what is kept and when. Does not belong here: prompts (`context_prompt`),
scores (`context_quality`), the wire (`rag_serving.models.chat`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rag_assets.contexts.cache import ContextCache
from rag_assets.contexts.tally import Tally
from rag_assets.steps.context_prompt import VERSION, Document, Passage, prompt, read_answer
from rag_assets.steps.context_quality import QualityScore, score_contexts
from rag_assets.steps.contextualize import NOT_ASKED, WrittenContext
from rag_serving.models.chat import RemoteChat, TooLateError
from rag_serving.models.conversation import Message, Reply
from rag_serving.models.protocols import ModelError
from rag_serving.settings import Context

COMMIT_CONTEXTS = 50  # what a killed run loses at most, beside what is in flight
COMMIT_S = 2.0
FAILURES_IN_A_ROW = 10
_PREAMBLE_TOKENS = 700  # the task, the passage itself and its question

_log = logging.getLogger(__name__)

Watch = Callable[[Tally], None]
OpenChat = Callable[[Context], RemoteChat]


def _unwatched(tally: Tally) -> None:
    """Nobody looks at the tally."""


@dataclass(frozen=True)
class Contexts:
    """Contexts by the key of their passage, and why there is none for the others."""

    written: Mapping[str, WrittenContext]
    failures: Mapping[str, str]
    tally: Tally


@dataclass
class _Best:
    """The best answer about one passage so far."""

    text: str = ""
    score: QualityScore | None = None
    why: str = "the model wrote nothing about it"

    def offer(self, text: str | None, score: QualityScore | None) -> None:
        """Take an answer if it is better; one that invents is none."""
        if text is None or score is None:
            return
        if score.invented:
            self.why = f"it invents {', '.join(score.invented[:3])}"
        elif not score.relevance:
            self.why = "it has none of the passage's key terms"
        elif self.score is None or score.overall > self.score.overall:
            self.text, self.score = text, score

    @property
    def accepted(self) -> bool:
        return self.score is not None and self.score.accepted


@dataclass
class _Spent:
    """Tokens of all calls about the same passages."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0

    def add(self, reply: Reply) -> None:
        self.tokens_in += reply.prompt_tokens
        self.tokens_out += reply.completion_tokens
        self.tokens_cached += reply.cached_tokens


@dataclass
class ContextWriter:
    """Writes the contexts of one build."""

    settings: Context
    cache: ContextCache
    open_chat: OpenChat
    watch: Watch = field(default=_unwatched)

    def write(self, documents: Sequence[Document]) -> Contexts:
        """The contexts of all passages, from the cache where it has them.

        Raises:
            ModelError: the model cannot be opened, or the cache cannot be used; a model that fails is no error.
        """
        passages = [passage for document in documents for passage in document.passages]
        oldest = VERSION if self.settings.refresh else 0
        known = self.cache.lookup([passage.key for passage in passages], oldest)
        calls = [call for document in documents for call in _calls(document, known, self.settings.chunks_per_call)]
        price = self.settings.prices.get(self.settings.model or "")
        run = _Run(self, Tally(sum(len(call.indexes) for call in calls), price))
        if calls:
            asyncio.run(run.all(calls))
        return Contexts({**known, **run.written}, run.failures, run.tally)


@dataclass(frozen=True)
class _Call:
    """Passages of one document that are asked about together."""

    document: Document
    indexes: tuple[int, ...]

    @property
    def passages(self) -> list[Passage]:
        return [self.document.passages[index] for index in self.indexes]


def _calls(document: Document, known: Mapping[str, WrittenContext], size: int) -> list[_Call]:
    """The calls for the passages that have no context; the same passage twice in a document is asked about once."""
    first = {passage.key: index for index, passage in reversed([*enumerate(document.passages)])}
    missing = [index for key, index in first.items() if key not in known]
    missing.sort()
    return [_Call(document, tuple(missing[at : at + size])) for at in range(0, len(missing), size)]


class _Run:
    """The calls of one `write`, in an event loop."""

    def __init__(self, writer: ContextWriter, tally: Tally) -> None:
        self.tally = tally
        self.written: dict[str, WrittenContext] = {}
        self.failures: dict[str, str] = {}
        self._settings = writer.settings
        self._cache = writer.cache
        self._watch = writer.watch
        self._chat = writer.open_chat(_sized(writer.settings, 1))
        self._shorter = writer.open_chat(_sized(writer.settings, 2))
        self._unsaved: dict[str, WrittenContext] = {}
        self._failed_in_a_row = 0
        self._down = ""

    async def all(self, calls: Sequence[_Call]) -> None:
        """Run every call, `max_workers` at once; what was written is kept even if this is interrupted."""
        waiting = iter(calls)
        workers = min(self._settings.max_workers, len(calls))
        saver = asyncio.create_task(self._save_regularly())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(waiting))
        finally:
            saver.cancel()
            self._save()
            self._watch(self.tally)

    async def _work(self, waiting: Iterator[_Call]) -> None:
        for call in waiting:  # one iterator for all workers
            if self._down:
                self._fail(call.passages, self._down)
                continue
            try:
                await self._ask(call)
            except Exception as error:  # one passage must not end the others, whatever is wrong with it
                _log.warning("contexts: %s: %s", type(error).__name__, error)
                self._fail(call.passages, f"{NOT_ASKED}{type(error).__name__}: {error}")

    async def _ask(self, call: _Call) -> None:
        """Ask until all passages of a call have good contexts, or there are no attempts left."""
        best = {index: _Best() for index in call.indexes}
        chat, spent = self._chat, _Spent()
        advice: tuple[str, ...] = ()
        for attempt in range(self._settings.attempts):
            open_ = [index for index in call.indexes if not best[index].accepted]
            if not open_ or self._down:
                break
            self.tally.retries += attempt > 0
            try:
                reply = await chat.reply_async([Message("user", prompt(call.document, open_, advice))])
            except TooLateError as error:
                chat = self._shorter
                self._count_failure(error, best, open_)
                continue
            except ModelError as error:
                self._count_failure(error, best, open_)
                break
            self._failed_in_a_row = 0
            spent.add(reply)
            advice = self._take(call, open_, best, reply.text)
        self._settle(call, best, spent)

    def _take(self, call: _Call, open_: Sequence[int], best: dict[int, _Best], text: str) -> tuple[str, ...]:
        """Score an answer; what to do better, if it has to be asked for again."""
        answers = read_answer(text, len(open_))
        found = [(index, answer) for index, answer in zip(open_, answers, strict=True) if answer]
        chunks = [call.document.passages[index].text for index, _ in found]
        scores = score_contexts([answer for _, answer in found], chunks, [call.document.text] * len(found))
        for (index, answer), score in zip(found, scores, strict=True):
            best[index].offer(answer, score)
        return tuple(dict.fromkeys(hint for score in scores if not score.accepted for hint in score.recommendations))

    def _settle(self, call: _Call, best: Mapping[int, _Best], spent: _Spent) -> None:
        """Keep the best context of each passage, with its share of the tokens."""
        self.tally.tokens_in += spent.tokens_in
        self.tally.tokens_out += spent.tokens_out
        self.tally.tokens_cached += spent.tokens_cached
        share = len(call.indexes)
        tokens = (spent.tokens_in // share, spent.tokens_out // share, spent.tokens_cached // share)
        for index in call.indexes:
            passage, found = call.document.passages[index], best[index]
            if found.score is None:
                self._fail([passage], found.why)
                continue
            context = WrittenContext(found.text, found.score.overall, found.score.issues, VERSION, *tokens)
            self.written[passage.key] = self._unsaved[passage.key] = context
            self.tally.count(done=1)
        if len(self._unsaved) >= COMMIT_CONTEXTS:
            self._save()
        self._watch(self.tally)

    def _count_failure(self, error: ModelError, best: Mapping[int, _Best], open_: Sequence[int]) -> None:
        for index in open_:
            best[index].why = str(error)
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= max(FAILURES_IN_A_ROW, self._settings.max_workers) and not self._down:
            self._down = f"not asked: the model failed {self._failed_in_a_row} times in a row ({error})"
            _log.warning("contexts: %s", self._down)

    def _fail(self, passages: Sequence[Passage], why: str) -> None:
        self.failures.update((passage.key, why) for passage in passages)
        self.tally.count(failed=len(passages))
        self._watch(self.tally)

    async def _save_regularly(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            self._save()

    def _save(self) -> None:
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            self._cache.remember(unsaved)


def _sized(settings: Context, divisor: int) -> Context:
    """The settings for a call: tokens for all of its passages, or a part of them after a time-out."""
    tokens = max(16, settings.max_output_tokens * settings.chunks_per_call // divisor)
    return settings.model_copy(update={"max_output_tokens": tokens, "first_token_timeout_s": settings.timeout_s})


def document_budget(settings: Context) -> int:
    """Tokens that the document may have in a prompt."""
    passages = _PREAMBLE_TOKENS * (1 + settings.chunks_per_call)
    return max(500, settings.context_tokens - settings.max_output_tokens * settings.chunks_per_call - passages)
