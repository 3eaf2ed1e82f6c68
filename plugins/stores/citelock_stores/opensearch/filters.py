"""The one place where a request to OpenSearch is narrowed to what may be read.

Belongs here: filters by tenant, generation, kind of document and reader class. Does not belong here: sending them
(`readable_documents`, the writer).

Document-level security of the server is not relied on: it would need a role for each set of reader classes. A request
without these conditions would be answered with every document of the index, so no module but this one makes a `bool`
query, and a test sees to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from citelock_stores.opensearch.layout import CLASSES, MOST_VALUES, class_id
from citelock_stores.remote.stored import GENERATION, POINT, TENANT

Query = dict[str, Any]


def readable(
    tenant: str, generation: str, kind: str, classes: Sequence[str], conditions: Sequence[Query] = ()
) -> Query:
    """Return the query of those documents of a kind whose reader class is one of `classes`.

    Raises:
        ValueError: there is no class, and so nothing that may be asked for.
    """
    if not classes:
        raise ValueError("nothing may be read without a reader class")
    return unread(tenant, generation, kind, [with_any(CLASSES, [*map(class_id, classes)]), *conditions])


def unread(tenant: str, generation: str, kind: str, conditions: Sequence[Query] = ()) -> Query:
    """Return the query of a generation's documents whoever may read them: for its manifest, for counts and for whoever
    publishes it."""
    owner = [_is(TENANT, tenant), _is(GENERATION, generation), _is(POINT, kind)]
    return {"bool": {"filter": [*owner, *conditions]}}


def of_tenant(tenant: str, kind: str | None = None) -> Query:
    """Return the query of a tenant's documents of a kind, or of all: for whoever publishes."""
    return {"bool": {"filter": [_is(TENANT, tenant), *([] if kind is None else [_is(POINT, kind)])]}}


def of_kind(kind: str) -> Query:
    """Return the query of documents of a kind of all tenants: for whoever counts what the quota has to hold."""
    return {"bool": {"filter": [_is(POINT, kind)]}}


def with_any(field: str, values: Sequence[Any]) -> Query:
    """Return the condition that a field has one of some values."""
    if len(values) <= MOST_VALUES:
        return {"terms": {field: list(values)}}
    starts = range(0, len(values), MOST_VALUES)
    parts = [{"terms": {field: list(values[start : start + MOST_VALUES])}} for start in starts]
    return {"bool": {"should": parts, "minimum_should_match": 1}}


def with_value(field: str, value: str) -> Query:
    """Return the condition that a field has a value."""
    return _is(field, value)


def _is(field: str, value: str) -> Query:
    return {"term": {field: value}}
