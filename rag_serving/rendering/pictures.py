"""Pictures and text layers of pages: made by few bounded processes, none of them for two tenants, and cached. Pictures
are in the tenant's cache, each with a seal of the installation: a foreign or altered one is made again. Text layers are
in memory."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rag_serving.artifacts.secret import SEAL_BYTES, Seal, SecretError
from rag_serving.artifacts.store import Store, open_file, write_bytes
from rag_serving.indexes.originals import Original
from rag_serving.isolation.child import Child, Frame, Limits, ParseError, module_command
from rag_serving.rendering.layer import Char, PageLayer
from rag_serving.rendering.worker import size_of

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
        """Return the worker's result for a file. Raises RenderError: it failed, with its reason; BusyError: others are
        first; MissingRendererError: pypdfium2 is not installed."""
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


FOLDER = "pictures"
MOST_BYTES = 256 * 1024**2
"""Of a tenant's pictures; the oldest go first."""
MOST_CHARS = 1_000_000
"""Of the layers that are kept in memory."""

_PURPOSE = "pictures"
_LARGEST = 48 * 1024**2
_log = logging.getLogger(__name__)


class Pictures:
    """Rendered pages. Safe to use from several threads."""

    def __init__(self, home: Path, processes: RenderProcesses | None = None) -> None:
        self._store = Store(home)
        self._processes = processes or RenderProcesses()
        self._layers = OrderedDict[tuple[str, str, int], PageLayer]()
        self._lock = threading.Lock()

    def close(self) -> None:
        self._processes.close()

    def image(self, tenant: str, caller: str, original: Original, page: int, scale: int) -> bytes:
        """Return a page as a PNG file, `scale` pixels for a point of 1/72 inch. Raises RenderError, BusyError,
        MissingRendererError: see `RenderProcesses.ask`; StoreError: the file is missing or was altered."""
        path = self._store.cache(tenant) / FOLDER / f"{original.sha256}-{page}-{scale}"
        if image := self._kept(path):
            return image
        answer = self._processes.ask(tenant, caller, {"do": "image", "page": page, "scale": scale}, original.read())
        if size_of(answer.content) is None:
            raise RenderError("this page cannot be shown")
        self._keep(path, answer.content)
        return answer.content

    def layer(self, tenant: str, caller: str, original: Original, page: int) -> PageLayer:
        """Return the text layer of a page. Raises the errors of `image`."""
        if known := self.known_layer(tenant, original, page):
            return known
        key = tenant, original.sha256, page
        answer = self._processes.ask(tenant, caller, {"do": "layer", "page": page}, original.read())
        try:
            facts = answer.facts
            chars = tuple(Char(str(sign), *map(float, box)) for sign, *box in facts["chars"])
            layer = PageLayer(str(facts["label"] or "")[:100], float(facts["width"]), float(facts["height"]), chars)
        except (KeyError, TypeError, ValueError):
            raise RenderError("this page cannot be shown") from None
        with self._lock:
            self._layers[key] = layer
            while sum(len(one.chars) for one in self._layers.values()) > MOST_CHARS:
                self._layers.popitem(last=False)
        return layer

    def known_layer(self, tenant: str, original: Original, page: int) -> PageLayer | None:
        """Return the text layer of a page that was read before; None of others."""
        key = tenant, original.sha256, page
        with self._lock:
            if layer := self._layers.get(key):
                self._layers.move_to_end(key)
            return layer

    def _kept(self, path: Path) -> bytes | None:
        try:
            with open_file(path) as file:
                content = file.read(_LARGEST)
            seal, image = content[:SEAL_BYTES], content[SEAL_BYTES:]
            return image if Seal(self._store.home, _PURPOSE).holds(seal, path.name.encode(), image) else None
        except (OSError, SecretError):
            return None

    def _keep(self, path: Path, image: bytes) -> None:
        """Keep a picture; a home that cannot be written makes it again each time."""
        try:
            write_bytes(path, Seal(self._store.home, _PURPOSE).of(path.name.encode(), image) + image)
            with os.scandir(path.parent) as entries:
                found = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries)
            left = sum(size for _, size, _ in found)
            for _, size, oldest in found:
                if left <= MOST_BYTES:
                    break
                Path(oldest).unlink(missing_ok=True)
                left -= size
        except (OSError, SecretError) as error:
            _log.warning("a picture of a page is not kept: %s", error)
