"""Taking out of a Qdrant server all that it holds of a tenant.

Belongs here: what is removed, in what order. Does not belong here: which generations nobody needs any more
(`citelock_stores.publishing.qdrant_writer`), the other things that are kept of a tenant (`rag_serving.erasure`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.pointer import Pointer
from citelock_stores.remote.stored import StoredGeneration
from rag_serving.config.index import Collections
from rag_serving.config.loading import Config


def count_of_tenant(config: Config, tenant: str) -> dict[str, int]:
    """Return how many aliases, collections and points the server has of a tenant, in either layout, of those that it
    has any of.

    Raises:
        RemoteError: the server refuses, or is gone.
    """
    counts = {"aliases": 0, "collections": 0, "points": 0}
    for pointer in _in_either_layout(config, tenant):
        counts["aliases"] += len(pointer.targets())
        names = pointer.own_collections()
        counts["collections"] += 0 if pointer.layout.shared else len(names)
        counts["points"] += sum(_points(pointer, name) for name in names)
    return {kind: count for kind, count in counts.items() if count}


def remove_tenant(config: Config, tenant: str) -> None:
    """Remove all that the server holds of a tenant, in either layout, for a holder of the tenant's lock
    (`Store.lock`); what was removed before a failure stays removed.

    Raises:
        RemoteError: the server refuses, or is gone.
    """
    for pointer in _in_either_layout(config, tenant):
        pointer.unpublish()
        for name in pointer.own_collections():
            if pointer.layout.shared:
                _delete_points(pointer, name, filters.selecting(filters.of_tenant(tenant)))
            else:
                pointer.remove(StoredGeneration("", tenant, name, None))


def _in_either_layout(config: Config, tenant: str) -> Iterator[Pointer]:
    for collections in get_args(Collections):
        with _pointer(config, tenant, collections) as pointer:
            yield pointer


@contextmanager
def _pointer(config: Config, tenant: str, collections: Collections) -> Iterator[Pointer]:
    index = config.index.model_copy(update={"collections": collections})
    pointer = Pointer(config.model_copy(update={"index": index}), tenant)
    try:
        yield pointer
    finally:
        pointer.close()


def _points(pointer: Pointer, name: str) -> int:
    narrowed = filters.of_tenant(pointer.tenant)
    answer = pointer.requests.ask(lambda client: client.count(name, count_filter=narrowed, exact=True))
    return int(answer.count)


def _delete_points(pointer: Pointer, name: str, selector: Any) -> None:
    pointer.requests.ask(lambda client: client.delete(name, points_selector=selector, wait=True))
