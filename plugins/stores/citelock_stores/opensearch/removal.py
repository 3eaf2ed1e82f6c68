"""Taking out of an OpenSearch server all that it holds of a tenant.

Belongs here: what is removed, in what order. Does not belong here: which generations nobody needs any more
(`citelock_stores.publishing.alias_publisher`), the other things that are kept of a tenant (`rag_serving.erasure`).
"""

from __future__ import annotations

from contextlib import closing

from citelock_stores.opensearch import filters
from citelock_stores.opensearch.connection import counted
from citelock_stores.opensearch.pointer import Pointer
from citelock_stores.remote.stored import StoredGeneration
from rag_serving.config.loading import Config


def count_of_tenant(config: Config, tenant: str) -> dict[str, int]:
    """Return how many aliases, indexes and documents the server has of a tenant, of those that it has any of.

    Raises:
        RemoteError: the server refuses, or is gone.
    """
    with closing(Pointer(config, tenant)) as pointer:
        names, narrowed = pointer.own_collections(), filters.of_tenant(tenant)
        documents = sum(pointer.requests.ask(lambda client, of=name: counted(client, of, narrowed)) for name in names)  # type: ignore[misc]
        counts = {"aliases": len(pointer.targets()), "indexes": len(names), "documents": documents}
    return {kind: count for kind, count in counts.items() if count}


def remove_tenant(config: Config, tenant: str) -> None:
    """Remove all that the server holds of a tenant, for a holder of the tenant's lock (`Store.lock`); what was removed
    before a failure stays removed.

    Raises:
        RemoteError: the server refuses, or is gone.
    """
    with closing(Pointer(config, tenant)) as pointer:
        pointer.unpublish()
        for name in pointer.own_collections():
            pointer.remove(StoredGeneration("", tenant, name, None))
