"""What builds do again and again with the same outcome, done once in a process of tests; events that nobody reads.

Belongs here: reading Dagster's migrations for each instance that is forgotten afterwards, sessions of the same model,
compressing the web page for each server, starting the process that reads files for each source.
Does not belong here: anything of the product that a test is about; folders (`shared`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest

from rag_serving.isolation import child
from rag_serving.models.embedding.local import Bert
from rag_serving.web import bundle

READERS = ("rag_assets.parsing.worker", "rag_assets.sources.sites.page_sync")
"""Programs of processes that read files; none in the tests of these processes."""
_FOLDER = "session.model_external_initializers_file_folder_path"


def read_migrations_once() -> None:
    """An instance in memory reads some hundred files to learn the newest version of its tables, which it creates."""
    from alembic.script import ScriptDirectory

    ScriptDirectory.from_config = staticmethod(cache(ScriptDirectory.from_config))  # type: ignore[method-assign, assignment]


def keep_memory_connected() -> None:
    """An instance in memory opens a connection for each statement, says two pragmas on it and inspects its tables: a
    fifth of a build's time."""
    from dagster._core.storage.event_log import in_memory as events
    from dagster._core.storage.runs import in_memory as runs
    from sqlalchemy import QueuePool, create_engine

    def engine(url: str, poolclass: object) -> Any:  # noqa: ARG001
        return create_engine(url, poolclass=QueuePool, connect_args={"check_same_thread": False})

    @contextmanager
    def connected(self: runs.InMemoryRunStorage) -> Iterator[Any]:
        with self._engine.begin() as connection:
            yield connection

    @contextmanager
    def locked(self: events.InMemoryEventLogStorage) -> Iterator[Any]:
        with self._db_lock, self._engine.begin() as connection:
            yield connection

    for module in (events, runs):
        module.create_engine = engine  # type: ignore[attr-defined]
    runs.InMemoryRunStorage.connect = connected  # type: ignore[method-assign]
    events.InMemoryEventLogStorage._connect = locked  # type: ignore[method-assign]
    events.InMemoryEventLogStorage.has_table = lambda _, name: name in events.SqlEventLogStorageMetadata.tables  # type: ignore[method-assign]


_remembering: dict[str, Any] = {}


def forget_events() -> None:
    """An instance in memory writes each event of a run into its tables and asks them for earlier ones: two fifths of a
    build's time. The project asks for runs alone; a test that asks for events does so in `remembered_events`."""
    from dagster._core.storage.event_log.in_memory import InMemoryEventLogStorage as Events

    def nothing(*_: object, **__: object) -> list[object]:
        return []

    for name in ("store_event", "get_asset_records", "_get_event_records"):
        _remembering.setdefault(name, getattr(Events, name))
        setattr(Events, name, nothing)


@contextmanager
def remembered_events() -> Iterator[None]:
    """Instances in memory keep the events of what runs in the block."""
    from dagster._core.storage.event_log.in_memory import InMemoryEventLogStorage as Events

    with pytest.MonkeyPatch.context() as patch:
        for name, method in _remembering.items():
            patch.setattr(Events, name, method)
        yield


def compress_the_web_page_once() -> None:
    """Each server of a test compresses the same files."""
    read, kept = bundle._read, cache(bundle._read)
    bundle._read = lambda path: kept(path) if path.is_relative_to(bundle.STATIC) else read(path)


def open_models_once() -> None:
    """Each server opens the same model, which takes more of a processor than most tests; a session has no state."""
    initialize = Bert.__init__

    @wraps(initialize)
    def initialized(self: Bert, *arguments: Any, **more: Any) -> None:
        _keep_sessions()
        initialize(self, *arguments, **more)

    Bert.__init__ = initialized  # type: ignore[method-assign]


@cache
def _keep_sessions() -> None:
    import onnxruntime as ort

    open_session, opened = ort.InferenceSession, dict[object, Any]()

    def session(graph: Any, options: Any = None, *more: Any, **named: Any) -> Any:
        try:
            folder = Path(options.get_session_config_entry(_FOLDER))
        except (AttributeError, RuntimeError):  # a graph without files, or another library's
            return open_session(graph, options, *more, **named)
        stamps = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in sorted(folder.iterdir()))
        key = (graph, folder, stamps, repr((more, named)))
        if key not in opened:
            opened[key] = open_session(graph, options, *more, **named)
        return opened[key]

    ort.InferenceSession = session


def keep_readers_running() -> None:
    """Each sync of a source with files starts a process that reads them, and imports a library for each kind: most of
    the test's time. One that waits for a document is handed on; one that failed is ended as ever."""
    start, ask = child.Child._started, child.Child.ask
    waiting = defaultdict[object, list[subprocess.Popen[bytes]]](list)

    def hand_on(process: subprocess.Popen[bytes], key: object, waits: list[bool]) -> None:
        if waits[-1] and process.poll() is None:
            waiting[key].append(process)
        else:
            child._end(process)

    def taken(those: list[subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
        with suppress(IndexError):
            while True:
                yield those.pop()

    def started(self: Any) -> subprocess.Popen[bytes]:
        if self._command[-1] not in READERS:
            return start(self)
        key = os.getpid(), self._command, tuple(sys.path), tuple(map(os.environ.get, child._ENVIRONMENT))
        process = next((each for each in taken(waiting[key]) if each.poll() is None), None)
        if process is None:
            process = start(self)
            self._ending.detach()
        self.waits = [False]
        self._ending = weakref.finalize(self, hand_on, process, key, self.waits)
        return process

    def asked(self: Any, request: child.Frame, progress: child.Progress | None = None) -> child.Frame:
        if waits := getattr(self, "waits", None):
            waits[-1] = False
        answer = ask(self, request, progress)
        if self._process is not None and (waits := getattr(self, "waits", None)):
            waits[-1] = True
        return answer

    child.Child._started, child.Child.ask = started, asked  # type: ignore[method-assign]
