"""The object store that a home folder is shared by: `home: s3://BUCKET/PREFIX`.

Belongs here: its settings. Does not belong here: what is kept there (the plug-in for scale).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from rag_serving.config.sources import Section

SCHEMES = ("s3", "gs", "az", "file")
DEFAULT_CACHE = ".citelock"


class ObjectStore(Section):
    """The object store through which machines share their home. `home: s3://BUCKET/PREFIX` (also `gs://`, `az://`,
    `file://`) sets `url`; each machine keeps the files that it needs in `cache`. If the file has such an address and
    `CITELOCK_HOME` is a folder, as in the images, the address remains the home and the folder becomes `cache`, unless
    `cache` is set too. If `CITELOCK_OBJECT_STORE__URL` is set but empty as well, the folder is the home and no store is
    used. Credentials come from the provider's own variables, such as `AWS_ACCESS_KEY_ID`; `CITELOCK_SECRET` must be the
    same on all machines."""

    url: str | None = Field(None, pattern=rf"^({'|'.join(SCHEMES)})://\S+$")
    """Address of the home; null: the home is a folder of this machine."""
    cache: Path = Path(DEFAULT_CACHE)
    """Folder of this machine for what it builds or fetches."""
    cache_bytes: int = Field(0, ge=0)
    """Bytes above which a reading machine deletes unpublished generations. 0: no limit, and the published and the
    previous generation of each tenant are kept. Tenants that are no longer configured are deleted from `cache`."""
    # Seconds that a starting server waits for the store. After that it answers from that generation, flagged
    # `stale_generation`, until the store responds.
    start_wait_s: ClassVar[float] = 1
    endpoint: str | None = None
    """Address of an S3-compatible server; null: the provider's. Requests to an `http:` address are not encrypted."""
    timeout_s: ClassVar[float] = 30  # seconds that one request may take
    retry_s: ClassVar[float] = 60  # seconds for which a failing request is retried
    lease_s: ClassVar[float] = 30  # seconds without a heartbeat until another machine may take over a build's folder
    poll_s: ClassVar[float] = 2  # seconds between a server's checks for a new publication
    sweep_after: ClassVar[int] = 20  # builds after which objects no longer in force are deleted; 0: never
    parallel: ClassVar[int] = 8  # files sent or fetched at the same time


def where_home_is(settings: ObjectStore, folder: Path) -> str:
    """Return the address of a shared home and its folder on this machine, in one line."""
    why = " (CITELOCK_HOME)" if str(folder) == _given().get(_HOME) else ""
    return f"{settings.url}; its cache on this machine is {folder}{why}"


def with_object_store(content: Any) -> Any:
    """Return a configuration's content with an address under `home` moved to `object_store.url`, and one folder of this
    machine under both `home` and `object_store.cache`."""
    home = content.get("home") if isinstance(content, Mapping) else None
    if isinstance(home, str) and _is_address(home) and home.partition("://")[0] not in SCHEMES:
        raise ValueError(f"home: {home!r} is neither a folder nor one of {', '.join(f'{one}://' for one in SCHEMES)}")
    given = content.get("object_store") if isinstance(content, Mapping) else None
    given = {**given} if isinstance(given, Mapping) else {}
    url = home if _is_address(home) else given.get("url")
    if not url:
        return content
    folder = given.get("cache") or DEFAULT_CACHE
    if home and not _is_address(home) and str(folder) == DEFAULT_CACHE:
        folder = home
    # Chroma's files stay on the machine that made them: an exact search finds the same everywhere.
    indexing = content.get("indexing") or {}
    if isinstance(indexing, Mapping):
        indexing = {"dense_search": "exact", **indexing}
    return {**content, "home": folder, "object_store": {**given, "url": url, "cache": folder}, "indexing": indexing}


class HomeVariable:
    """Reads `CITELOCK_HOME` as the folder of a shared home, where the file names the home's address."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        """`content`: what the file says."""
        self._content = content

    def __call__(self) -> dict[str, Any]:
        """Return the keys that go before those of other variables."""
        given, own = _given(), self._content.get("object_store")
        own = own if isinstance(own, Mapping) else {}
        folder, url = given.get(_HOME), given.get(_URL)
        address = url or self._content.get("home")
        if not folder or _is_address(folder):
            return {}
        if url == "":
            return {"home": folder, "object_store": {"url": None}}
        if not _is_address(address):
            return {"home": own["cache"]} if own.get("url") and own.get("cache") else {}
        is_set = given.get(_CACHE) or own.get("cache")
        return {"home": address, **({} if is_set else {"object_store": {"cache": folder}})}


_HOME, _URL, _CACHE = "citelock_home", "citelock_object_store__url", "citelock_object_store__cache"


def _given() -> dict[str, str]:
    """Return the variables of the environment by their names in lower case, as the configuration reads them."""
    return {name.lower(): value for name, value in os.environ.items()}


def _is_address(home: Any) -> bool:
    return isinstance(home, str) and "://" in home
