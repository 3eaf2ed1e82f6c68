"""The alias of a tenant in the server of `index`.

Belongs here: which server it is. Does not belong here: a server (`indexes.qdrant`, `indexes.opensearch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from rag_serving.indexes.remote.aliases import AliasPointer

ALIASED = frozenset({"qdrant", "opensearch"})
"""Kinds of `index` in which an alias names what is published."""


def open_pointer(config: Config, tenant: str, key_setting: str = "writer_key_env") -> AliasPointer:
    """Return a tenant's alias; `key_setting`: which key of `index` names the variable of the key."""
    if config.index.kind == "opensearch":
        from rag_serving.indexes.opensearch.pointer import Pointer as OpenSearchPointer

        return OpenSearchPointer(config, tenant, key_setting)
    from rag_serving.indexes.qdrant.pointer import Pointer as QdrantPointer

    return QdrantPointer(config, tenant, key_setting)
