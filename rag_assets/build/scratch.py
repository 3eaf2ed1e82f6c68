"""A home folder for a build that is only estimated: a copy of what syncs and caches need, thrown away afterwards.

Belongs here: what is copied, what is left out. Does not belong here: the build (`command`), the estimate
(`embedding_estimate`, `rag_assets.llm_contexts.estimate`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rag_serving.config.loading import Config
from rag_serving.config.object_store import ObjectStore

_LEFT_OUT = frozenset({"generations", "chroma", "originals", "candidate"})  # of a tenant's folder
_DATABASES = (".db", ".db-wal", ".db-shm")  # of the installation: telemetry, receipts
_LINKED_BYTES = 1_000_000  # files are replaced, never changed in place, but for databases


@contextmanager
def scratch_home(config: Config) -> Iterator[Config]:
    """Yield the configuration with a home folder of its own, which every process below reads, and no Dagster instance:
    what is built there leaves nothing behind."""
    with TemporaryDirectory(prefix="citelock-estimate-") as folder:
        home = Path(folder)
        if config.home.is_dir():
            _copy(config.home, home)
        with _environment({"CITELOCK_HOME": folder, "CITELOCK_OBJECT_STORE__URL": "", "DAGSTER_HOME": None}):
            yield config.model_copy(update={"home": home, "object_store": ObjectStore()})


def _copy(source: Path, target: Path) -> None:
    for folder, names, files in os.walk(source):
        here = Path(folder).relative_to(source)
        if len(here.parts) == 2 and here.parts[0] == "tenants":
            names[:] = [name for name in names if name not in _LEFT_OUT]
        (target / here).mkdir(exist_ok=True)
        for name in files:
            if name.endswith(".lock") or (here == Path() and name.endswith(_DATABASES)):
                continue
            _copy_file(Path(folder) / name, target / here / name)


def _copy_file(file: Path, copy: Path) -> None:
    """Copy a file, or link a large one that is no database; one that is gone by now is left out."""
    try:
        if file.stat().st_size > _LINKED_BYTES and "sqlite" not in file.name:
            try:
                os.link(file, copy)
            except OSError:  # another file system
                shutil.copy2(file, copy)
        else:
            shutil.copy2(file, copy)
    except FileNotFoundError:
        return


@contextmanager
def _environment(values: dict[str, str | None]) -> Iterator[None]:
    """Set variables of this process, None: unset, until the block ends."""
    before = {name: os.environ.get(name) for name in values}
    try:
        _set(values)
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
