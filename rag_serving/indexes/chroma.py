"""Connections to Chroma: embedded in the tenant's folder, or a server.

Belongs here: opening clients, one per process and place, with nothing that phones home.
Does not belong here: what is stored (`shard_collections`), how it is searched (`dense`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_serving.escaping.redaction import RedactedError
from rag_serving.indexes.shard_files import DATABASE, database_fault

if TYPE_CHECKING:
    import httpx

_CONNECT_S, _ANSWER_S = 3.0, 60.0


class DenseError(RedactedError):
    """Chroma or a collection cannot be used; the message says which and why."""


@dataclass(frozen=True)
class ChromaLocation:
    """Where a tenant's collections are: a folder, or a database of the server at `url`."""

    folder: Path
    tenant: str
    url: str | None = None

    def __str__(self) -> str:
        return self.url or str(self.folder)


_clients: dict[ChromaLocation, tuple[object, Any]] = {}
_lock = threading.Lock()


def open_client(place: ChromaLocation) -> Any:
    """Return the process's one client of a place; a folder that was replaced since is opened anew.

    Raises:
        DenseError: the server does not answer or the folder cannot be opened.
    """
    with _lock:
        try:
            stamp = _stamp(place)
            known = _clients.get(place)
            if known and known[0] == stamp:
                return known[1]
            if known:
                del _clients[place]
                _close(known[1])
            client = _connect_server(place) if place.url else _open_folder(place)
            _clients[place] = _stamp(place), client
        except DenseError as error:
            raise DenseError(f"Chroma at {place} cannot be opened: {error}") from None
        except Exception as error:  # Chroma raises plain ValueError, its own and its transport's errors
            raise DenseError(f"Chroma at {place} cannot be opened ({one_line(error)})") from error
        return client


def close_clients() -> None:
    """Close every client of this process: each holds some 5 MB for every collection it has opened.

    What a place's collections were opened for opens them again when it next asks.
    """
    with _lock:
        for _, client in _clients.values():
            _close(client)
        _clients.clear()


def _stamp(place: ChromaLocation) -> object:
    """Changes when the folder is deleted and made again: an open client would go on writing to the deleted one."""
    if place.url:
        return None
    try:
        return (place.folder / DATABASE).stat().st_ino
    except FileNotFoundError:
        return None


def _settings(**more: Any) -> Any:
    """Settings that send no telemetry and read no stray `.env` file."""
    from chromadb.config import Settings

    return Settings(_env_file=None, anonymized_telemetry=False, **more)


def _open_folder(place: ChromaLocation) -> Any:
    """Return a client of the folder; what is no database is not even shown to Chroma, which would remember its
    failure."""
    import chromadb

    if fault := database_fault(place.folder):
        raise DenseError(fault)
    place.folder.mkdir(parents=True, exist_ok=True)
    return chromadb.PersistentClient(str(place.folder), settings=_settings())


def _connect_server(place: ChromaLocation) -> Any:
    """Return a client of the tenant's own database on the server, which is made when it is not there yet."""
    import chromadb

    parts = urlsplit(place.url or "")
    ssl = parts.scheme == "https"
    server: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1",
        "port": parts.port or (443 if ssl else 8000),
        "ssl": ssl,
    }
    database = f"citelock-{place.tenant}"
    default: Any = chromadb.HttpClient(**server, settings=_settings())
    _limit_waiting(default)
    try:
        default._admin_client.create_database(database)
    except Exception as error:
        if "exist" not in str(error):
            raise
    client = chromadb.HttpClient(**server, settings=_settings(), database=database)
    _close(default)
    _limit_waiting(client)
    return client


def _limit_waiting(client: Any) -> None:
    """Chroma's client waits for ever by default; a hung server must not hang questions."""
    import httpx

    for session in _sessions(client):
        session.timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)


def _close(client: Any) -> None:
    """Close a client and, which Chroma leaves open, its connections."""
    sessions = _sessions(client)
    client.close()
    for session in sessions:
        session.close()


def _sessions(client: Any) -> list[httpx.Client]:
    """A server's client has connections, and the second one that it makes to administer; a folder's has none."""
    import httpx

    servers = [getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))]
    sessions = (getattr(server, "_session", None) for server in servers)
    return [session for session in sessions if isinstance(session, httpx.Client)]


def one_line(error: BaseException) -> str:
    """Return an error's message without line breaks, at most 200 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
