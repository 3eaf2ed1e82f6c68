"""A disk that is full: the home of a server, or the folder that it fetches generations into.

Belongs here: small file systems in memory, filling and freeing them. Does not belong here: what is published
meanwhile (`stages.publish`, `fault_store`).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evals.load.fault_store import PICKED_UP_S, generation_of, shared_home
from evals.load.services import wait_for
from evals.load.stages import Place, SkippedError, Stage, publish

_FREE_MB = 48
_CACHE_MB = 96


@contextmanager
def home_full(place: Place) -> Iterator[Stage]:
    """Fill the disk of the home: receipts and telemetry cannot be written, a build fails and leaves what is served."""
    size = sum(file.stat().st_size for file in place.base.rglob("*") if file.is_file())
    place.home.mkdir()
    with _small_disk(place.home, size // 2**20 + _FREE_MB):
        shutil.copytree(place.base, place.home, dirs_exist_ok=True)
        config = place.config()
        before, builds = place.current(), list[subprocess.CompletedProcess[str]]()

        def facts() -> dict[str, Any]:
            told = builds[0].stderr.strip().splitlines()[-1:] if builds[0].returncode else ["it ended well"]
            kept = place.current() == before
            built = publish(place, config)
            return {
                "build_failed": builds[0].returncode != 0, "build_told": told[0][:300] if told else False,
                "published_kept": kept, "build_after": built and place.current() != before,
            }  # fmt: skip

        with place.serving(config) as server:
            filler = place.home / "filler"
            yield Stage(
                server, place.installation(config), lambda: _fill(filler), filler.unlink,
                lambda: builds.append(place.build(config)), facts,
            )  # fmt: skip


@contextmanager
def cache_full(place: Place) -> Iterator[Stage]:
    """Fill the disk that generations are fetched into while one is published; it is fetched once there is room."""
    cache = place.folder / "cache"
    cache.mkdir()
    with _small_disk(cache, _CACHE_MB), shared_home(place, cache) as (builder, reader, _):  # noqa: SIM117
        with place.serving(reader) as server:
            installation, filler = place.installation(reader), cache / "filler"
            before, published = generation_of(server.url, installation), list[bool]()

            def facts() -> dict[str, Any]:
                wait_for(lambda: generation_of(server.url, installation) != before, "nothing new", PICKED_UP_S)
                return {"published_meanwhile": published == [True], "new_generation_served": True}

            yield Stage(
                server, installation, lambda: _fill(filler), filler.unlink,
                lambda: published.append(publish(place, builder)), facts,
            )  # fmt: skip


@contextmanager
def _small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a file system in memory.

    Raises:
        SkippedError: that is not allowed here.
    """
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "citelock-load", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        raise SkippedError("a small disk can be mounted by root alone: run it by `unshare -rm`")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def _fill(file: Path) -> None:
    """Write until nothing more fits, to the last byte."""
    size = 1 << 20
    with file.open("wb", buffering=0) as opened:
        while size:
            try:
                if opened.write(b"\xff" * size) < size:
                    size //= 2
            except OSError:
                size //= 2
