"""The one place that narrows a request to Qdrant to readable points. Qdrant has no row policies, and since version 1.16
no filters in its access tokens: a request without these conditions would return every tenant's points. So no module but
this one makes a `Filter`, which a test verifies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdrant_client.models import Filter

TENANT, GENERATION, POINT, READERS = "tenant", "generation", "point", "readers"
"""Fields of all that a server holds: whose it is, and of what kind."""


def readable(tenant: str, generation: str, kind: str, classes: Sequence[str], conditions: Sequence[Any] = ()) -> Filter:
    """Return the filter of those points of a kind whose reader class is one of `classes`. Raises ValueError: there is
    no class, and so nothing to query."""
    if not classes:
        raise ValueError("nothing may be read without a reader class")
    return _all(tenant, generation, [_any(READERS, classes), *conditions], kind)


def unread(tenant: str, generation: str, kind: str | None = None) -> Filter:
    """Return the filter of a generation's points for all readers: for its manifest, for counts and for its
    publisher."""
    return _all(tenant, generation, [], kind)


def of_tenant(tenant: str, kind: str | None = None) -> Filter:
    """Return the filter of the points of a kind, or of all, in all generations of a tenant, for its publisher."""
    from qdrant_client.models import Filter

    return Filter(must=[with_value(TENANT, tenant), *([] if kind is None else [with_value(POINT, kind)])])


def of_kind(kind: str) -> Filter:
    """Return the filter of the points of a kind of all tenants, for the quota."""
    from qdrant_client.models import Filter

    return Filter(must=[with_value(POINT, kind)])


def selecting(narrowed: Filter) -> Any:
    """Return the selection of the points that a filter passes, to be deleted."""
    from qdrant_client.models import FilterSelector

    return FilterSelector(filter=narrowed)


def with_ids(ids: Sequence[str]) -> Any:
    """Return the condition that a point is one of these."""
    from qdrant_client.models import HasIdCondition

    return HasIdCondition(has_id=list(ids))


def with_value(field: str, value: str) -> Any:
    """Return the condition that a field of the payload has a value."""
    from qdrant_client.models import FieldCondition, MatchValue

    return FieldCondition(key=field, match=MatchValue(value=value))


def _all(tenant: str, generation: str, conditions: Sequence[Any], kind: str | None) -> Filter:
    from qdrant_client.models import Filter

    kinds = [] if kind is None else [with_value(POINT, kind)]
    return Filter(must=[with_value(TENANT, tenant), with_value(GENERATION, generation), *kinds, *conditions])


def _any(field: str, values: Sequence[str]) -> Any:
    from qdrant_client.models import FieldCondition, MatchAny

    return FieldCondition(key=field, match=MatchAny(any=list(values)))
