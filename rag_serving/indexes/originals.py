"""The files that a generation's pages were read from, by page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rag_serving.artifacts.manifest import FileFacts
from rag_serving.artifacts.schema import ORIGINALS
from rag_serving.artifacts.store import Store, StoreError, map_table, open_file
from rag_serving.indexes.shard_files import fault_of

FILE = "originals.arrow"


@dataclass(frozen=True)
class Original:
    """A file that a page was read from. `path`: where its bytes lie, shared by the tenant's generations."""

    sha256: str
    media_type: str
    size: int  # in bytes
    page_count: int | None
    path: Path
    received_sha256: str | None = None  # of the file as it came, where this one was made from it

    def digests(self) -> dict[str, str]:
        """Return the digest of the file, and of the one that it was made from."""
        received = {"received_sha256": self.received_sha256} if self.received_sha256 else {}
        return {"sha256": self.sha256, **received}

    def read(self) -> bytes:
        """Return the bytes, compared with the manifest's digest. Raises StoreError: the file is missing or altered."""
        try:
            with open_file(self.path) as file:
                content = file.read(self.size + 1)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read ({error.strerror}); run `citelock build`") from None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise StoreError(f"{self.path} was altered; delete it and run `citelock build`")
        return content

    def fault(self, thorough: bool) -> str | None:
        """Return how the file differs from the published one, or None; `thorough` compares its digest."""
        return fault_of(self.path, FileFacts(bytes=self.size, sha256=self.sha256), thorough)


def read_originals(store: Store, tenant: str, generation_id: str) -> Mapping[str, Original]:
    """Return the originals that a generation names; none without such a file. Raises StoreError: it cannot be read."""
    path = store.generation(tenant, generation_id) / FILE
    return originals_of(map_table(path, ORIGINALS) if path.exists() else None, store.originals(tenant))


def originals_of(table: pa.Table | None, folder: Path) -> Mapping[str, Original]:
    """Return the originals of a table ORIGINALS by page id; `folder`: `Store.originals(tenant)`."""
    found = {}
    for row in table.to_pylist() if table is not None else ():
        facts = row["media_type"], row["bytes"], row["page_count"], folder / row["sha256"], row.get("received_sha256")
        found[row["page_id"]] = Original(row["sha256"], *facts)
    return found
