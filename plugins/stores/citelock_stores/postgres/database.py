"""PostgreSQL as a database of `index`: the entry point `postgres` of `citelock.stores`.

Belongs here: which part does what. Does not belong here: the parts.
"""

from __future__ import annotations

import time

from citelock_stores.postgres import removal
from citelock_stores.postgres.publisher import Publisher
from citelock_stores.postgres.store import PostgresStore
from citelock_stores.remote.database import SearchedDatabase
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.erasure.erasing import PublishedError
from rag_serving.indexes.databases import Figures, StoredInfo


class PostgresDatabase(SearchedDatabase):
    """Generations in PostgreSQL."""

    def store(self) -> PostgresStore:
        return PostgresStore(self.config)

    def published(self, tenant: str) -> str | None:
        return next((info.id for info in Publisher(self.config, tenant).listed() if info.current), None)

    def listed(self, tenant: str) -> list[StoredInfo] | None:
        if not self.config.index.writer_url:
            return None
        return [
            StoredInfo(info.id, info.chunks, info.created_at, info.published_at, info.current)
            for info in Publisher(self.config, tenant).listed()
        ]

    def roll_back(self, _: Store, tenant: str, generation_id: str | None) -> str:
        publisher = Publisher(self.config, tenant)
        target = generation_id
        if target is None:
            infos = publisher.listed()
            current = next((number for number, info in enumerate(infos) if info.current), len(infos))
            if current + 1 >= len(infos):
                raise StoreError(f"the database has no generation of tenant {tenant!r} to go back to")
            target = infos[current + 1].id
        publisher.point_to(target)
        return target

    def publish(self, store: Store, tenant: str, generation_id: str, resend: bool) -> Figures:
        from citelock_stores.publishing.postgres_writer import publish_generation

        began = time.monotonic()
        copied = publish_generation(store, tenant, generation_id, self.config, resend)
        rows = {f"rows_of_{table}": count for table, count in copied.items()}
        return {"rows_copied": sum(copied.values()), **rows, "seconds": round(time.monotonic() - began, 3)}

    def prune(self, _: Store, tenant: str) -> tuple[str, ...]:
        from citelock_stores.publishing.postgres_writer import PostgresPublisher

        return PostgresPublisher(self.config, tenant).prune(self.config.indexing.keep_generations)

    def count(self, tenant: str) -> dict[str, int]:
        return removal.count_of_tenant(self._eraser(tenant))

    def erase(self, _: Store, tenant: str) -> None:
        removal.remove_tenant(self._eraser(tenant))

    def _eraser(self, tenant: str) -> Publisher:
        if not self.config.index.writer_url:
            raise PublishedError(
                f"generations of {tenant} may be in the database of `index`, and index.writer_url is missing: set "
                "CITELOCK_INDEX__WRITER_URL=postgresql://citelock_writer@host/name, or run this where generations are "
                "built"
            )
        return Publisher(self.config, tenant)
