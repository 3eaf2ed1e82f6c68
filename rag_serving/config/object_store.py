"""The object store that a home folder is shared by: `home: s3://BUCKET/PREFIX`.

Belongs here: its settings. Does not belong here: what is kept there (`object_home`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from rag_serving.config.sources import Section

SCHEMES = ("s3", "gs", "az", "file")


class ObjectStore(Section):
    """The object store that machines share their home by. `home: s3://BUCKET/PREFIX` (also `gs://`, `az://`, `file://`)
    sets `url`; what a machine needs of it lies in `cache`. Credentials come from the provider's own variables, such as
    `AWS_ACCESS_KEY_ID`; `CITELOCK_SECRET` must be the same everywhere."""

    url: str | None = Field(None, pattern=rf"^({'|'.join(SCHEMES)})://\S+$")
    """Where the home is; null: it is a folder of this machine."""
    cache: Path = Path(".citelock")
    """Folder of this machine for what it builds and for what it has fetched."""
    endpoint: str | None = None
    """Address of an S3-compatible server; null: the provider's. An address with `http:` is asked without encryption."""
    timeout_s: float = Field(30, gt=0)
    """Seconds that one request may take."""
    retry_s: float = Field(60, ge=0)
    """Seconds for which a request that fails is tried again."""
    lease_s: float = Field(30, ge=0.2)
    """Seconds without a sign of life after which another machine may write what a killed build was writing."""
    poll_s: float = Field(2, gt=0)
    """Seconds between two looks of a server at what is published."""
    sweep_after: int = Field(20, ge=0)
    """Builds after which the next one deletes the objects of a folder that nothing in force needs; 0: never."""
    parallel: int = Field(8, ge=1, le=64)
    """Files that are sent, or fetched, at once."""


def with_object_store(content: Any) -> Any:
    """Return a configuration's content with an address under `home` moved to `object_store.url`."""
    home = content.get("home") if isinstance(content, Mapping) else None
    if not isinstance(home, str) or "://" not in home:
        return content
    if home.partition("://")[0] not in SCHEMES:
        raise ValueError(f"home: {home!r} is neither a folder nor one of {', '.join(f'{one}://' for one in SCHEMES)}")
    given = content.get("object_store") or {}
    cache = given.get("cache", ".citelock") if isinstance(given, Mapping) else ".citelock"
    # Chroma's files stay on the machine that made them: an exact search finds the same everywhere.
    indexing = {"max_graph_chunks": 0, **(content.get("indexing") or {})}
    return {**content, "home": cache, "object_store": {**given, "url": home}, "indexing": indexing}
