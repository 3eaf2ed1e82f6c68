"""Publishing a checked generation in Qdrant.

Belongs here: which points, upload and checks are Qdrant's. Does not belong here: the order of a publication
(`alias_publisher`).
"""

from __future__ import annotations

from pathlib import Path

from citelock_stores.publishing.alias_publisher import AliasPublisher
from citelock_stores.publishing.generation_points import GenerationPoints
from citelock_stores.publishing.qdrant_checks import QdrantChecks
from citelock_stores.publishing.qdrant_points import QdrantPoints
from citelock_stores.publishing.qdrant_upload import QdrantUpload
from citelock_stores.qdrant.pointer import Pointer
from rag_serving.indexes.generation_files import GenerationFiles


class QdrantPublisher(AliasPublisher, Pointer):
    """The generations of one tenant in a Qdrant server, for a holder of the tenant's lock (`Store.lock`)."""

    def _points(self, files: GenerationFiles, folder: Path) -> QdrantPoints:
        return QdrantPoints(files, folder, self._config.home)

    def _upload(self, points: GenerationPoints) -> QdrantUpload:
        assert isinstance(points, QdrantPoints)
        return QdrantUpload(self.requests, self._collection_of(points), points, self._config)

    def _checks(self, points: GenerationPoints) -> QdrantChecks:
        assert isinstance(points, QdrantPoints)
        return QdrantChecks(self.requests, self._collection_of(points), points, self._config)
