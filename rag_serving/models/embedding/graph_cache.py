"""Inputs of opening a model, cached between starts: graphs of encoders, which take as long to make as to open, and the
digests of a model's files.

Belongs here: a file for each, named by its inputs and signed by the installation.
Does not belong here: the graphs (`local`), the weights, which stay in their own file (`weights`).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rag_serving.artifacts.secret import SecretError, derived_key

KEY_PURPOSE = "graphs"
_SIGNATURE_BYTES = 32

_log = logging.getLogger(__name__)


class GraphCache:
    """The graphs under a home folder; safe to delete, to kill at any moment, and to share between processes."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def get(self, made_from: str, make: Callable[[], bytes]) -> bytes:
        """Return the graph, or digest, made from something, as it was kept, or as it is made now.

        A file that was altered is made again; if nothing can be kept, or there is no home yet, nothing is.
        """
        if not self._home.is_dir():
            return make()
        name = hashlib.sha256(made_from.encode()).hexdigest()[:32]
        path = self._home / "cache" / "models" / f"{name}.graph"
        try:
            key = derived_key(self._home, KEY_PURPOSE)
        except SecretError as error:
            _log.info("no graph is kept: %s", error)
            return make()
        if kept := _read(path, key, name):
            return kept
        graph = make()
        from rag_serving.artifacts.store import write_bytes  # imports pyarrow: not for a graph that is there

        with suppress(OSError):
            write_bytes(path, _signature(key, name, graph) + graph)
        return graph


def _read(path: Path, key: bytes, name: str) -> bytes | None:
    """Return the graph of a file; None if there is none, or it was altered."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    signature, graph = content[:_SIGNATURE_BYTES], content[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(key, name, graph)):
        _log.warning("%s is damaged and made again", path)
        return None
    return graph


def _signature(key: bytes, name: str, graph: bytes) -> bytes:
    return hmac.new(key, name.encode() + b"\n" + graph, hashlib.sha256).digest()
