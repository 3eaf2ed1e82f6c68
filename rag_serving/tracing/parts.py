"""Parts of a question as spans: only of those that took long enough to matter, failed, or opened a span themselves.

Belongs here: which parts become spans. Does not belong here: timing them for the answer (`stages`), other spans
(`spans`).

A question has some thirty parts, of which most take a fraction of a millisecond. A span takes 0.04 ms to make and to
send, so that one for each would make every question slower than all these parts do.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rag_serving.tracing.names import ERROR_TYPE

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

SHORTEST_NS = 1_000_000
"""Nanoseconds from which on a part is a span."""

_current: ContextVar[Part | None] = ContextVar("part", default=None)
_making = Lock()


class Part:
    """A part that goes on. It is made a span when its first child becomes one, or at its end."""

    def __init__(self, name: str, tracer: Tracer) -> None:
        self._name, self._tracer = name, tracer
        self._attributes: dict[str, Any] = {}
        self._reason = ""
        self._span: Any = None
        self._is_over = False

    def __enter__(self) -> Part:
        from opentelemetry.context import get_current

        self._outside = get_current()
        self._above = _current.get()
        self._token: Token[Part | None] = _current.set(self)
        self._started = time.time_ns()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        _current.reset(self._token)
        ended = time.time_ns()
        if error is not None:
            self.fail(type(error).__name__)
        if self._reason or ended - self._started >= SHORTEST_NS:
            self.context()
        with _making:
            self._is_over = True
        if self._span is not None:
            self._finish(ended)

    def set(self, attributes: dict[str, Any]) -> None:
        """Set attributes, none of them text."""
        self._attributes.update(attributes)

    def fail(self, reason: str) -> None:
        """Mark it as failed, by the name of an error's class."""
        self._reason = reason

    def context(self) -> Context:
        """Return the context that spans below it begin in; it is made a span for that, unless it is over."""
        from opentelemetry.trace import set_span_in_context

        outside = self._outside if self._above is None else self._above.context()
        with _making:
            if self._span is None and not self._is_over:
                self._span = self._tracer.start_span(self._name, outside, start_time=self._started)
        return outside if self._span is None else set_span_in_context(self._span, outside)

    def _finish(self, ended: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        if self._attributes:
            self._span.set_attributes(self._attributes)
        if self._reason:
            self._span.set_attribute(ERROR_TYPE, self._reason)
            self._span.set_status(Status(StatusCode.ERROR, self._reason))
        self._span.end(ended)


def below() -> Context | None:
    """Return the context that a span below the current part begins in; None outside of parts."""
    part = _current.get()
    return None if part is None else part.context()


def leave() -> Token[Part | None]:
    """Begin a span that stands below no part any more; `back` ends that."""
    return _current.set(None)


def back(token: Token[Part | None]) -> None:
    """End what `leave` began."""
    _current.reset(token)
