"""`citelock ask --docs FOLDER`: the index of a folder, kept beside it, without a configuration to write."""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rag_assets.progress import Reporter
from rag_assets.sources import open_source
from rag_assets.sources.base import SourceError
from rag_assets.state.locks import RUN_WAIT_S, exclusive, is_held
from rag_serving.artifacts.manifest import WORDS, read_manifest
from rag_serving.artifacts.store import Store, StoreError, remove_folder, write_text
from rag_serving.cli.group import UsageError
from rag_serving.cli.options import FolderIndex
from rag_serving.config.keys import DELIMITER, PREFIX
from rag_serving.config.loading import Config, load_config
from rag_serving.models.lazy_embedder import open_guarded
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from rag_assets.making import Making

KEY = "docs"
"""The name of the source and of the tenant."""
_NAMED = 3  # files that are left out for one reason
_MADE = "made"  # says of which files, settings and version the index is, and how much of it there is:
_BY_WORDS, _WHOLE = "words", "whole"
_FEW = 100  # passages that an answer waits for: their vectors take 8 s of a core
_OF_OTHERS = ("CONFIG", "HOME", "INDEX", "OBJECT_STORE", "SOURCES", "TENANTS")

_log = logging.getLogger(__name__)


def index_folder(folder: Path, is_whole: bool) -> FolderIndex:
    """Make what changed of a folder's index: without the vectors where many are missing, unless all is wanted.
    Processes wait for each other. One that is killed loses nothing that was embedded. Raises UsageError: there is no
    folder, or no document in it that can be read."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder" if folder.exists() else f"no folder {folder}")
    for name in [name for name in os.environ if _is_of_others(name)]:
        del os.environ[name]  # they say where another installation is
    folder = folder.resolve()
    home = _home(folder)
    content = {
        "home": str(home),
        "tenants": {KEY: {}},
        "sources": {KEY: {"kind": "files", "tenant": KEY, "path": str(folder), "readers": "everyone"}},
        "serving": {"connect": False},  # the folder is all there is
        "ingestion": {"dedup_threshold": 1},  # nearly the same is found by datasketch, which brings 125 MB
        "indexing": {"dense_search": "exact", "sentence_vectors": "never"},
    }
    path, text = home / "app.yaml", json.dumps(content, indent=1) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(home / ".gitignore", "*\n")
        write_text(path, text)
    config = load_config(path)
    try:
        made = _made(config)
        if not made or (is_whole and made == _BY_WORDS):
            if is_held(home):
                complain(f"another process is making the index of {folder}; waiting for it")
            with exclusive(home, RUN_WAIT_S):
                made = _make(config, folder, is_whole)
    except SourceError as error:
        raise UsageError(str(error).partition("; ")[0]) from None  # what it names is no key that anybody wrote
    return FolderIndex(path, partial(_finish, config, folder) if made == _BY_WORDS else None)


def _finish(config: Config, folder: Path, is_shown: bool) -> None:
    """Make the missing vectors: shown at once and left to another process that does, else silently and after it."""
    if is_shown and is_held(config.home):
        return
    if is_shown:
        complain("making the vectors for later questions; Ctrl-C stops it, what was made is kept")
    with exclusive(config.home, RUN_WAIT_S):
        _make(config, folder, True, is_shown)


def _is_of_others(name: str) -> bool:
    section = name.upper().removeprefix(PREFIX).partition(DELIMITER)[0]
    return name.upper().startswith(PREFIX) and section in _OF_OTHERS


def _home(folder: Path) -> Path:
    """Return where the index is kept: in the folder, or in the user's cache where nothing may be written to it."""
    home = folder / ".citelock"
    if os.access(home if home.is_dir() else folder, os.W_OK):
        return home
    return cache_of(folder)


def cache_of(folder: Path, use: str = "") -> Path:
    """Return where a use of a folder keeps its tables in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "citelock" / use / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _made(config: Config) -> str:
    """Return how much is made of the folder, the settings and the version: no model is opened for it."""
    noted, store = _noted(config.home), Store(config.home)
    if store.current(KEY) is None or noted.mark != _mark(config):
        return ""
    if noted.stamps:
        return "" if _is_altered(config.home) else noted.made
    from rag_assets.state.planning import published_damage

    return "" if published_damage(config, store, KEY, "opens") else noted.made  # a process makes vectors, or was killed


class _Noted(NamedTuple):
    """Of what an index was made, how much of it, when its files were written and what they say; not while they are."""

    mark: str = ""
    made: str = ""
    stamps: str = ""
    content: str = ""


def _noted(home: Path) -> _Noted:
    try:
        return _Noted(*(home / _MADE).read_text(encoding="utf-8").split(" "))
    except (OSError, ValueError, TypeError):
        return _Noted()


def _note(home: Path, noted: _Noted) -> None:
    write_text(home / _MADE, " ".join(noted))


def _is_altered(home: Path) -> bool:
    noted = _noted(home)
    if noted.stamps in ("", _digest(home, _stamp)):
        return False
    if noted.content != _digest(home, _sha256):
        return True
    _note(home, noted._replace(stamps=_digest(home, _stamp)))  # it was copied
    return False


def _digest(home: Path, told: Callable[[Path], str]) -> str:
    """Return a digest of what is told of each file of an index; what is cached has checks of its own."""
    paths = [home / "secret", *(home / "sources").rglob("*"), *(home / "tenants").rglob("*")]
    names = {path.relative_to(home).as_posix(): path for path in paths if path.is_file() and path.suffix != ".lock"}
    lines = [f"{name} {told(path)}\n" for name, path in sorted(names.items()) if "/cache/" not in name]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _stamp(path: Path) -> str:
    now = path.stat()
    return f"{now.st_size} {now.st_mtime_ns} {now.st_ctime_ns}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mark(config: Config) -> str:
    told = version("citelock"), config.model_dump_json(), _fingerprint(config)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _fingerprint(config: Config) -> str:
    folder = Store(config.home).source(KEY)
    found = open_source(KEY, config.sources[KEY], folder, public_url=config.serving.public_url).fingerprint()
    assert found is not None  # a folder always tells
    return found


def _due(config: Config) -> tuple[bool, bool]:
    from rag_assets.state.planning import (
        published_damage,
        published_inputs,
        source_facts,
        sources_to_ingest,
        wanted_inputs,
    )

    store = Store(config.home)
    if sources_to_ingest([source_facts(config, store, KEY, _fingerprint(config))]):
        return True, True
    wanted = wanted_inputs(config, store, open_guarded(config), [KEY])
    is_published = wanted.get(KEY) == published_inputs(store, KEY)
    return False, not is_published or bool(published_damage(config, store, KEY, "opens"))


def _make(config: Config, folder: Path, is_whole: bool, is_shown: bool = True) -> str:
    from rag_assets.build.command import reporting
    from rag_assets.making import Making

    mark, made, noted = _mark(config), _WHOLE, _noted(config.home)  # what is written meanwhile is another one
    if _is_altered(config.home):
        complain(f"the index of {folder} was altered, and is made again")
        for part in (Store(config.home).source(KEY), Store(config.home).candidate(KEY)):
            remove_folder(part)
    _note(config.home, noted._replace(stamps="", content=""))
    ingests, publishes = _due(config)  # another process may have done it meanwhile
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        with reporting(as_json=False, verbose=False) if is_shown else nullcontext(Reporter()) as reporter:
            making = Making(KEY, config, Store(config.home), reporter, _log)
            left_out = _ingest(making, folder) if ingests else {}
            if publishes:
                made = _WHOLE if is_whole or _few_are_new(making) else _BY_WORDS
                _publish(making, made)
        _note(config.home, _Noted(mark, made, *(_digest(config.home, told) for told in (_stamp, _sha256))))
    except KeyboardInterrupt:
        print("citelock: interrupted; what was embedded is kept", file=sys.stderr)
        raise
    finally:
        if not was_enabled:
            gc.disable()
    for line in _lines(left_out):
        complain(line)
    return made


def _few_are_new(making: Making) -> bool:
    from rag_assets.state.records import read_state

    store, cut, has_vectors = making.store, read_state(making.store, KEY).chunks, False
    with suppress(StoreError):
        has_vectors = read_manifest(store, KEY, store.current(KEY) or "").embedder != WORDS
    return cut is not None and (cut.chunks_new if has_vectors else cut.chunks) <= _FEW


def _ingest(making: Making, folder: Path) -> Mapping[str, str]:
    """Make the tables of the folder; return which files are left out, and why."""
    from rag_assets.making.tables import make_chunks, make_pages, make_sections

    pages, update = make_pages(making)[0], make_sections(making)[0]
    left_out = {**dict(pages.excluded), **dict(pages.failures), **update.failed}
    if not len(make_chunks(making)[0]):
        raise UsageError("; ".join([f"no document in {folder} can be read", *_lines(left_out)]))
    return left_out


def _publish(making: Making, made: str) -> None:
    from rag_assets.making import generations, selections
    from rag_assets.publishing.publish import PublishError
    from rag_assets.state.planning import attempts

    failed: PublishError | None = None
    for _ in attempts(making.store, making.key):
        selections.make_selection(making)
        selections.make_contexts(making)
        (generations.make_embeddings if made == _WHOLE else generations.make_word_index)(making)
        generations.make_dense_index(making)
        generations.make_lexical_index(making)
        generations.make_generation(making)
        try:
            generations.make_publication(making)
        except PublishError as error:
            failed = error
        else:
            failed = None
    if failed:
        raise failed


def _lines(left_out: Mapping[str, str]) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for label in left_out.values():
        name, _, why = label.partition(": ")
        names.setdefault(why, []).append(name)
    for why, files in names.items():
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        yield f"left out: {', '.join(files[:_NAMED])}{more}: {why}"
