"""The network to the reranker sidecar: connections that are accepted and never answered, and connections that are cut.

Belongs here: the stages. Does not belong here: the proxy (`tcp_proxy`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from evals.load.services import sidecar
from evals.load.stages import Place, Stage
from evals.load.tcp_proxy import Mode, tcp_proxy

RERANKER: dict[str, Any] = {
    "candidates": 20,
    "max_seq_len": 128,  # what the tiny model reads
    "timeout_s": 2,
    "breaker_failures": 3,
    "breaker_reset_s": 5,
}


def sidecar_fault(mode: Mode) -> Callable[[Place], AbstractContextManager[Stage]]:
    """Return the stage of a server that reaches its sidecar only as the proxy lets it."""

    @contextmanager
    def staged(place: Place) -> Iterator[Stage]:
        place.copy_home()
        with sidecar(place.folder) as port, tcp_proxy(port) as proxy:
            config = place.config(reranker={"url": f"http://127.0.0.1:{proxy.port}/rerank", **RERANKER})

            def heal() -> None:
                proxy.mode = ""

            def inject() -> None:
                proxy.mode = mode

            with place.serving(config) as server:
                yield Stage(server, place.installation(config), inject, heal)

    return staged
