"""The processes that render, few and bounded, none of them for two tenants.

Belongs here: which process renders what, how many at once, how many may wait.
Does not belong here: what a process does (`worker`), what was rendered before (`pictures`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from rag_serving.isolation.child import Child, ParseError, module_command
from rag_serving.isolation.frames import Frame
from rag_serving.isolation.limits import Limits

LIMITS = Limits(seconds=10, memory_mb=512, answer_bytes=48 * 1024**2)
"""On one page."""
PROCESSES = 2
MOST_WAITING, MOST_OF_CALLER = 8, 4
"""Pages under way or waiting: of all callers, of one of them. Each waits in a thread that others want as well."""
WAIT_S = 20.0

_WORKER = module_command("rag_serving.rendering.worker")


class RenderError(Exception):
    """A page cannot be shown; the message is one line."""


class RenderersBusyError(Exception):
    """Too many pages are being rendered; it can be tried again."""


class MissingRendererError(Exception):
    """The renderer is not installed; the message names the package."""


@dataclass
class _Slot:
    """A process, and whose files it has seen."""

    child: Child
    tenant: str = ""


class RenderProcesses:
    """Renders in processes of their own. Safe to use from several threads."""

    def __init__(self, limits: Limits = LIMITS, processes: int = PROCESSES) -> None:
        self._limits = limits
        self._slots = [_Slot(Child(limits, _WORKER)) for _ in range(processes)]
        self._free = threading.Condition()
        self._waiting = Counter[str]()

    def ask(self, tenant: str, caller: str, facts: Mapping[str, Any], content: bytes) -> Frame:
        """Return the worker's result for a file.

        Raises:
            RenderError: it failed, with its reason.
            BusyError: others are first.
            MissingRendererError: pypdfium2 is not installed.
        """
        if find_spec("pypdfium2") is None:
            raise MissingRendererError("pages of PDF files are shown with pypdfium2: install citelock[pdf]")
        with self._admitted(f"{tenant}\n{caller}"), self._slot(tenant) as slot:
            try:
                answer = slot.child.ask(Frame({**facts, "limits": list(self._limits)}, content))
            except ParseError:
                raise RenderError("this page takes too much to be shown, or its file is broken") from None
        if not answer.facts.get("done"):
            raise RenderError("this page cannot be shown: its file is broken, or has no such page")
        return answer

    def close(self) -> None:
        """End the processes."""
        for slot in self._slots:
            slot.child.close()

    @contextmanager
    def _admitted(self, caller: str) -> Iterator[None]:
        with self._free:
            if self._waiting.total() >= MOST_WAITING or self._waiting[caller] >= MOST_OF_CALLER:
                raise RenderersBusyError("other pages are being rendered")
            self._waiting[caller] += 1
        try:
            yield
        finally:
            with self._free:
                self._waiting[caller] -= 1
                self._waiting += Counter()  # drops requests that nobody waits for

    @contextmanager
    def _slot(self, tenant: str) -> Iterator[_Slot]:
        """Yield a free process, one of the tenant's own if there is one; another's is replaced."""
        with self._free:
            if not self._free.wait_for(lambda: self._slots, WAIT_S):
                raise RenderersBusyError("other pages are being rendered")
            slot = next((slot for slot in self._slots if slot.tenant == tenant), self._slots[0])
            self._slots.remove(slot)
        try:
            if slot.tenant != tenant:
                slot.child.close()
                slot.tenant = tenant
            yield slot
        finally:
            with self._free:
                self._slots.append(slot)
                self._free.notify()
