"""Publishing a checked generation in OpenSearch.

Belongs here: which documents, upload and checks are OpenSearch's. Does not belong here: the order of a publication
(`alias_publisher`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from citelock_stores.opensearch.pointer import Pointer
from citelock_stores.publishing.alias_publisher import AliasPublisher
from citelock_stores.publishing.generation_points import GenerationPoints
from citelock_stores.publishing.opensearch_checks import OpenSearchChecks
from citelock_stores.publishing.opensearch_documents import OpenSearchDocuments
from citelock_stores.publishing.opensearch_upload import OpenSearchUpload
from rag_serving.indexes.databases import RemoteError
from rag_serving.indexes.generation_files import GenerationFiles


class OpenSearchPublisher(AliasPublisher, Pointer):
    """The generations of one tenant in an OpenSearch server, for a holder of the tenant's lock (`Store.lock`)."""

    def _points(self, files: GenerationFiles, folder: Path) -> OpenSearchDocuments:
        return OpenSearchDocuments(files, folder, self._config.home)

    def _upload(self, points: GenerationPoints) -> OpenSearchUpload:
        assert isinstance(points, OpenSearchDocuments)
        return OpenSearchUpload(self.requests, self._collection_of(points), points, self._config)

    def _checks(self, points: GenerationPoints) -> OpenSearchChecks:
        assert isinstance(points, OpenSearchDocuments)
        return OpenSearchChecks(self.requests, self._collection_of(points), points, self._config)

    def _stored_bytes(self, collection: str) -> int | None:
        """Return what the primary shards of an index take on disk; None where the key may not ask for it."""
        try:
            return self.requests.ask(lambda client: _primary_bytes(client, collection))
        except RemoteError:
            return None


def _primary_bytes(client: Any, index: str) -> int:
    answer = client.indices.stats(index=index, metric="store")
    return int(answer["indices"][index]["primaries"]["store"]["size_in_bytes"])
