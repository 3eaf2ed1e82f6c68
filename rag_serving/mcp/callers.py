"""The callers of tools, and their limits.

Belongs here: a caller, the caller of a process of one's own. Does not belong here: tokens of HTTP (`api.mcp`), a
principal's access (`access.principals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.deadline import Deadline

Release = Callable[[], None]


def _unlimited() -> Release:
    return lambda: None


@dataclass(frozen=True)
class Caller:
    """A caller, and its tenant."""

    principal: Principal
    pipeline: Pipeline
    deadline: Deadline
    """When the work ends; it is cancelled where the caller leaves."""
    take_slot: Callable[[], Release] = _unlimited
    """Take one of the answers that may be under way at once; returns what gives it back when it is called for the
    second time, by the response and by the thread. Raises ToolError where none is left."""


class Callers(Protocol):
    """Callers, by the transport's data on a request."""

    def __call__(self, request: Any) -> Caller:
        """Return the caller. `request`: the HTTP request, None on standard input.

        Raises:
            ToolError: the caller has no access.
        """
        ...


@dataclass(frozen=True)
class OneCaller:
    """The one caller of a process: the user who started it."""

    principal: Principal
    pipeline: Pipeline

    def __call__(self, request: Any) -> Caller:  # noqa: ARG002
        timeout_s = self.pipeline.config.serving.request_timeout_s
        return Caller(self.principal, self.pipeline, Deadline(timeout_s))
