"""Spans of a trace: no-ops until a process opens an exporter, and how threads and servers go on with one. OpenTelemetry
is imported where spans are sent, and nowhere else: without `tracing.endpoint` a span costs the look whether there is a
tracer."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer


# Names of attributes: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (semantic conventions 1.41, status:
# development), and our own under `citelock.`.
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
TEMPERATURE: Final = "gen_ai.request.temperature"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
DATA_SOURCE: Final = "gen_ai.data_source.id"
DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"

# Text: set only where `tracing.text` allows it.
QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
OF_TEXT: Final = frozenset({QUERY_TEXT, INPUT_MESSAGES, OUTPUT_MESSAGES})

CHAT, EMBEDDINGS, RETRIEVAL, RERANK = "chat", "embeddings", "retrieval", "rerank"
"""Values of `gen_ai.operation.name`; the conventions have no reranking, whose value is our own."""

METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

TENANT: Final = "citelock.tenant"
GENERATION: Final = "citelock.generation"
PHASE: Final = "citelock.phase"
FLAG: Final = "citelock.flag"
TEXTS: Final = "citelock.texts"  # how many
ASSET: Final = "citelock.asset"
PARTITION: Final = "citelock.partition"
RUN: Final = "dagster.run_id"
UNIT, FIRST, LAST, TOTAL = "citelock.batch.unit", "citelock.batch.first", "citelock.batch.last", "citelock.batch.total"
"""Of a batch of a build: what is counted, the numbers of its first and last one, from 1, and of how many."""


SHORTEST_NS = 1_000_000
"""Nanoseconds from which on a part is a span."""

_current: ContextVar[OpenPart | None] = ContextVar("part", default=None)
_naming = Lock()


@dataclass(frozen=True)
class Ended:
    """A part that is over and is sent as a span; times in nanoseconds since 1970."""

    name: str
    context: SpanContext
    parent: SpanContext
    started: int
    ended: int
    attributes: Mapping[str, str]


class OpenPart:
    """A part that goes on. It has the id of a span from when its first child becomes one, or from its end."""

    def __init__(self, name: str, emit: Callable[[Ended], None]) -> None:
        self._name, self._emit = name, emit
        self._attributes: dict[str, str] = {}
        self._ids: tuple[SpanContext, SpanContext] | None = None  # its own, and its parent's
        self._is_over = False

    def __enter__(self) -> OpenPart:
        from opentelemetry.context import get_current

        self._outside = get_current()
        self._above = _current.get()
        self._token: Token[OpenPart | None] = _current.set(self)
        self._started = time.time_ns()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        _current.reset(self._token)
        ended = time.time_ns()
        if error is not None:
            self.fail(type(error).__name__)
        if ERROR_TYPE in self._attributes or ended - self._started >= SHORTEST_NS:
            self.span_context()
        with _naming:
            self._is_over = True
        if self._ids:
            self._emit(Ended(self._name, *self._ids, self._started, ended, self._attributes))

    def set(self, attributes: Mapping[str, str]) -> None:
        """Set attributes, none of them text."""
        self._attributes.update(attributes)

    def fail(self, reason: str) -> None:
        """Mark it as failed, by the name of an error's class."""
        self._attributes[ERROR_TYPE] = reason

    def span_context(self) -> SpanContext:
        """Return the ids that spans below it have as their parent: its own; those above if it is over and was no
        span, or where the trace is not sent."""
        from opentelemetry.trace import SpanContext, get_current_span

        if self._ids:
            return self._ids[0]
        parent = self._above.span_context() if self._above else get_current_span(self._outside).get_span_context()
        with _naming:
            if self._ids is None and not self._is_over and parent.trace_flags.sampled:
                number = random.getrandbits(64) or 1
                self._ids = SpanContext(parent.trace_id, number, False, parent.trace_flags, parent.trace_state), parent
            return self._ids[0] if self._ids else parent

    def context(self) -> Context:
        """Return the context that spans below it begin in."""
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        return set_span_in_context(NonRecordingSpan(self.span_context()), self._outside)


def below() -> Context | None:
    """Return the context that a span below the current part begins in; None outside of parts."""
    part = _current.get()
    return None if part is None else part.context()


Kind = Literal["internal", "server", "client"]
Value = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Value | None]
Result = TypeVar("Result")

_LONGEST_TEXT = 8000
"""Characters of a text, where texts are allowed."""


class OpenSpan:
    """A span that is open, or nothing if none is recorded."""

    def __init__(self, span: Span | None = None, allows_text: bool = False) -> None:
        self._span, self._allows_text = span, allows_text

    def __enter__(self) -> OpenSpan:
        return self

    def __exit__(self, kind: object, error: object, traceback: TracebackType | None) -> None:
        return None

    def set(self, attributes: Attributes) -> None:
        """Set attributes; None is left out, and so is text if it is not allowed."""
        if self._span is None or not self._span.is_recording():
            return
        for name, value in attributes.items():
            if value is None or (name in OF_TEXT and not self._allows_text):
                continue
            self._span.set_attribute(name, value[:_LONGEST_TEXT] if isinstance(value, str) else value)

    def fail(self, reason: str) -> None:
        """Mark it as failed, by the name of an error's class or a status: messages may repeat what pages say."""
        if self._span is not None and self._span.is_recording():
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute(ERROR_TYPE, reason)
            self._span.set_status(Status(StatusCode.ERROR, reason))

    def rename(self, name: str) -> None:
        """Give it another name."""
        if self._span is not None:
            self._span.update_name(name)


_NONE = OpenSpan()


@dataclass(frozen=True)
class Spans:
    """The destination of this process's spans."""

    tracer: Tracer
    emit: Callable[[Ended], None]
    allows_text: bool

    @contextmanager
    def open(self, name: str, attributes: Attributes | None, kind: Kind, parent: Any = None) -> Iterator[OpenSpan]:
        from opentelemetry.trace import SpanKind

        kinds = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
        context, token = parent or below(), _current.set(None)
        try:
            with self.tracer.start_as_current_span(
                name, context, kinds[kind], record_exception=False, set_status_on_exception=False
            ) as started:
                opened = OpenSpan(started, self.allows_text)
                opened.set(attributes or {})
                try:
                    yield opened
                except BaseException as error:
                    opened.fail(type(error).__name__)
                    raise
        finally:
            _current.reset(token)


_spans: Spans | None = None


def use(spans: Spans | None) -> None:
    """Send the spans of this process there from now on; None: nowhere."""
    global _spans
    _spans = spans


def is_on() -> bool:
    """Return whether spans of this process are sent."""
    return _spans is not None


def span(name: str, attributes: Attributes | None = None, kind: Kind = "internal") -> AbstractContextManager[OpenSpan]:
    """Return a span below the one that is open in this context; an error that leaves it is marked by its class."""
    return _NONE if _spans is None else _spans.open(name, attributes, kind)


def part_span(name: str) -> AbstractContextManager[OpenSpan | OpenPart]:
    """Return a part of a question, which becomes a span where `parts` says so."""
    if _spans is None:
        return _NONE
    from opentelemetry.trace import get_current_span

    if _current.get() is not None or get_current_span().get_span_context().is_valid:
        return OpenPart(name, _spans.emit)
    return _spans.open(name, None, "internal")


def server_span(name: str, headers: Mapping[str, str], attributes: Attributes) -> AbstractContextManager[OpenSpan]:
    """Return the span of a request; it goes on with the trace that its headers name (W3C `traceparent`), if they do."""
    if _spans is None:
        return _NONE
    return _spans.open(name, attributes, "server", _propagator().extract(headers))


def batch_span(name: str, attributes: Attributes, started_ns: int) -> None:
    """Note something that has ended just now as a span below the one that is open; `started_ns`: since 1970."""
    if _spans is not None:
        opened = _spans.tracer.start_span(name, start_time=started_ns)
        OpenSpan(opened, _spans.allows_text).set(attributes)
        opened.end()


def current_span() -> OpenSpan:
    """Return the span that is open in this context."""
    if _spans is None:
        return _NONE
    from opentelemetry.trace import get_current_span

    return OpenSpan(get_current_span(), _spans.allows_text)


def trace_id() -> str | None:
    """Return the id of the trace of this context, 32 hexadecimal digits; None without one."""
    if _spans is None:
        return None
    from opentelemetry.trace import format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else None


def outgoing() -> dict[str, str]:
    """Return the headers by which another server goes on with the trace of this context; none without a trace."""
    headers: dict[str, str] = {}
    if _spans is not None:
        _propagator().inject(headers)
    return headers


def carried(work: Callable[[], Result]) -> Callable[[], Result]:
    """Return some work for another thread, with its spans below the one open here."""
    if _spans is None:
        return work
    from opentelemetry.context import attach, detach, get_current

    context = below() or get_current()

    def run() -> Result:
        token = attach(context)
        try:
            return work()
        finally:
            detach(token)

    return run


def message_text(messages: object) -> str | None:
    """Return messages as JSON for a span attribute; None, and no work, if spans may not contain text."""
    if _spans is None or not _spans.allows_text:
        return None
    return json.dumps(messages, ensure_ascii=False)


def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
