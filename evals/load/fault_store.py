"""Faults of the object store that a server follows: slow, failing, cut off, while a generation is published.

Belongs here: stages on moto's S3 server behind a proxy. Does not belong here: the proxy (`tcp_proxy`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from evals.load.installation import PATHS, Installation, body_of
from evals.load.services import BUCKET, STORE_ENVIRONMENT, object_store, wait_for
from evals.load.stages import FIRST_SOURCE, TENANT, Place, Stage, publish
from evals.load.tcp_proxy import Mode, TcpProxy, tcp_proxy

PICKED_UP_S = 60
_POLL = {"poll_s": 1, "timeout_s": 5, "retry_s": 5}


def store_fault(mode: Mode) -> Callable[[Place], AbstractContextManager[Stage]]:
    """Return the stage of a store that a server reaches only as the proxy lets it; the builder reaches it always."""

    @contextmanager
    def staged(place: Place) -> Iterator[Stage]:
        with shared_home(place) as (builder, reader, proxy), place.serving(reader) as server:
            installation = place.installation(reader)

            def heal() -> None:
                proxy.mode = ""

            def inject() -> None:
                proxy.mode = mode

            before = generation_of(server.url, installation)
            published: list[bool] = []

            def facts() -> dict[str, Any]:
                wait_for(lambda: generation_of(server.url, installation) != before, "nothing new", PICKED_UP_S)
                return {"published_meanwhile": published == [True], "new_generation_served": True}

            yield Stage(server, installation, inject, heal, lambda: published.append(publish(place, builder)), facts)

    return staged


@contextmanager
def shared_home(place: Place, cache: Path | None = None) -> Iterator[tuple[Path, Path, TcpProxy]]:
    """Yield the configurations of a machine that builds and of one that reads by a proxy, and the proxy; a first
    generation is published."""
    place.environment |= STORE_ENVIRONMENT
    home = f"s3://{BUCKET}/load"
    with object_store() as port, tcp_proxy(port) as proxy:

        def store(folder: Path, at: int) -> dict[str, Any]:
            return {"cache": str(folder), "endpoint": f"http://127.0.0.1:{at}", **_POLL}

        builder = place.config("builder", home, object_store=store(place.folder / "builder", port))
        reader = place.config("reader", home, object_store=store(cache or place.folder / "cache", proxy.port))
        done = place.build(builder, FIRST_SOURCE)
        if done.returncode:
            raise RuntimeError(f"the first build failed: {done.stderr[-1000:]}")
        yield builder, reader, proxy


def generation_of(url: str, installation: Installation) -> str:
    """Return the generation that a search is answered from."""
    headers = installation.headers(TENANT)
    response = httpx.post(
        url + PATHS["search"], json=body_of("search", installation.questions[0]), headers=headers, timeout=120
    )
    return str(response.raise_for_status().json()["generation"])
