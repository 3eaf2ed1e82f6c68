"""Readiness of a process for questions: `GET /readyz`.

Belongs here: the rule, and its answer; threads of their own for probes and metrics, beside those that answer questions,
which may all be waiting. Does not belong here: the problems of a tenant (`pipeline`, `shared_home`), the route (`app`).

At its start a process waits for every tenant that has a published generation, so that a replica which takes the place
of another can answer what that one could. Once it was ready, it is while any tenant has answers: all replicas see the
same new tenant, or the same damaged generation, at the same time, and none of that may take them all away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from fastapi.responses import JSONResponse

from rag_serving.api.wire import error_body
from rag_serving.deadline import run_in_thread

OPEN_WAIT_S = 60.0
"""Seconds since its start that a process waits for a tenant whose generation is being opened: a disk may hang."""
LEAVING = "this server ends; send questions to another one"


class TenantState(NamedTuple):
    """Why a tenant cannot be answered, None if it can, and whether it is fetching or opening."""

    problem: str | None
    fetching: str | None = None
    is_opening: bool = False
    still_answers: bool = False
    """Although there is a problem: earlier answers can be given, or degraded ones."""


class Readiness:
    """The readiness of a process since its start. Used by the event loop's thread alone."""

    def __init__(self) -> None:
        self._began, self._was_ready = time.monotonic(), False

    def of(self, states: Mapping[str, TenantState]) -> bool:
        """Return whether the process may be sent questions."""
        can_answer = any(state.problem is None or state.still_answers for state in states.values())
        is_ready = can_answer and (self._was_ready or not any(map(self._is_waited_for, states.values())))
        self._was_ready = self._was_ready or is_ready
        return is_ready

    def _is_waited_for(self, state: TenantState) -> bool:
        is_opening = state.is_opening and time.monotonic() - self._began < OPEN_WAIT_S
        return state.fetching is not None or is_opening


def readiness_response(
    is_ready: bool, states: Mapping[str, TenantState], show: bool, configuration: str | None = None
) -> JSONResponse:
    """Return the answer of `/readyz`; names and reasons only if `show`: nobody else can ask. `configuration`: why
    its file is not used as it is now."""
    told = {tenant: state.fetching or state.problem for tenant, state in states.items()}
    content: dict[str, Any] = {"ready": is_ready} | ({"configuration": configuration} if configuration else {})
    if not is_ready:
        content |= error_body("NOT_READY", next(filter(None, told.values()), "no tenant is configured"))
    if not show:
        content.pop("message", None)
    else:
        content["tenants"] = {tenant: problem or "ok" for tenant, problem in told.items()}
    return JSONResponse(content, 200 if is_ready else 503)


def leaving_response() -> JSONResponse:
    """Return the response of `/readyz` while the process is ending but still answers."""
    return JSONResponse({"ready": False, **error_body("NOT_READY", LEAVING)}, 503)


MAX_THREADS = 256

Result = TypeVar("Result")


class BackgroundWork:
    """Runs work by its name; callers that ask for the same while it is under way share its outcome.

    Only the event loop's thread calls `run`.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, Future[Any]] = {}

    async def run(self, name: str, work: Callable[[], Result], wait_s: float) -> Result:
        """Return the work's result, or raise its error.

        Raises:
            TimeoutError: it takes longer, or too much other work hangs.
        """
        outcome: Future[Result] | None = self._under_way.get(name)
        if outcome is None:
            if len(self._under_way) >= MAX_THREADS:
                raise TimeoutError
            outcome = self._under_way[name] = run_in_thread(work, name.split()[0])
            outcome.add_done_callback(lambda _: self._under_way.pop(name, None))
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(outcome)), wait_s)
