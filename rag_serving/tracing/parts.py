"""Parts of a question as spans: only of those that took long enough to matter, failed, or opened a span themselves.

Belongs here: which parts become spans. Does not belong here: timing them for the answer
(`rag_serving.tracing`), other spans (`spans`), sending them (`exporting`).

A question has some twenty parts, most of which take a fraction of a millisecond. A span of the SDK takes 0.03 ms, so
that one for each would make a question slower by more than they take themselves: a part is put together when it is
over, of what is known then.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING

from rag_serving.tracing.names import ERROR_TYPE

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

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


def is_within_part() -> bool:
    """Return whether a part goes on in this context."""
    return _current.get() is not None


def leave() -> Token[OpenPart | None]:
    """Begin a span outside every part; `back` ends that."""
    return _current.set(None)


def back(token: Token[OpenPart | None]) -> None:
    """End the effect of `leave`."""
    _current.reset(token)
