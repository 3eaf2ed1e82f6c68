"""How the vectors of a generation are searched in a server that has collections and aliases.

Belongs here: what its manifest and the settings of `index` say of that. Does not belong here: searching
(`qdrant`, `opensearch`).
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError

from citelock_stores.remote.packing import bytes_of
from citelock_stores.remote.stored import ManifestPayload
from rag_serving.artifacts.manifest import Manifest
from rag_serving.config.index import Index
from rag_serving.indexes.databases import RemoteDataError


class SearchSettings(NamedTuple):
    """How the vectors of a generation are searched. `ef`: candidates of the graph; None: all are compared."""

    windows: bool
    dimension: int
    ef: int | None


def search_settings(generation: str, payload: ManifestPayload, settings: Index) -> SearchSettings:
    """Return how a generation is searched.

    Raises:
        RemoteDataError: its manifest is damaged.
    """
    try:
        manifest = Manifest.model_validate_json(bytes_of(payload.content))
    except ValidationError:
        raise RemoteDataError(
            f"the manifest of generation {generation} is damaged; run `citelock generations repair`"
        ) from None
    ef = settings.ef_search if manifest.chunks >= settings.ann_chunks else None
    return SearchSettings(payload.windows, manifest.embedder.dimension, ef)
