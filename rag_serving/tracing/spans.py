"""Spans of a trace: no-ops until a process opens an exporter, and how threads and servers go on with one.

Belongs here: opening spans, their attributes, W3C trace context of requests in and out. Does not belong here: sending
them (`exporting`), their names (`names`).

OpenTelemetry is imported where spans are sent, and nowhere else: without `tracing.endpoint` a span costs the look
whether there is a tracer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rag_serving.tracing.names import ERROR_TYPE, OF_TEXT
from rag_serving.tracing.parts import Ended, OpenPart, back, below, is_within_part, leave

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

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
        context, token = parent or below(), leave()
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
            back(token)


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
    if is_within_part() or _is_within_span():
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


def _is_within_span() -> bool:
    from opentelemetry.trace import get_current_span

    return get_current_span().get_span_context().is_valid


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
