"""Certificates: what a set is proved by later, without any model.

Belongs here: the certificate of a set for its receipt, counting it again. Does not belong here: running a query, the
digest (`execute`), receipts (`receipts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rag_serving.records.sets import SetError, SetQuery, SetResult, SetTables
from rag_serving.sets.execute import execute, sha256_of


def certificate(result: SetResult, classes: Iterable[str]) -> dict[str, Any]:
    """Return a set's part of a receipt; `classes` are the reader classes of the query."""
    return {
        "query": result.query.payload(),
        "generation": result.generation,
        "readers": sorted(classes),
        "members": [[member.key, sha256_of(member.cells)] for member in result.members],
        "value": result.value,
        "groups": [[group.name, group.count, group.value] for group in result.groups],
        "digest": result.digest,
    }


def recount(stated: Mapping[str, Any], tables: SetTables) -> list[str]:
    """Return the faults of a certificate, one per line, by running its query once more.

    `tables` are those of the certificate's generation as visible to its readers.
    """
    try:
        query = SetQuery.of(stated["query"])
        result = execute(query, tables, str(stated["generation"]))
        return list(_faults(stated, certificate(result, ()), query))
    except SetError as error:
        return [f"set: it cannot be counted ({error})"]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return [f"set: its certificate cannot be read ({type(error).__name__}: {error})"]


def _faults(stated: Mapping[str, Any], counted: Mapping[str, Any], query: SetQuery) -> Iterator[str]:
    said, true = dict(stated["members"]), dict(counted["members"])
    yield from (f"set: member {key} is missing" for key in true if key not in said)
    yield from (f"set: member {key} is none" for key in said if key not in true)
    yield from (f"set: member {key} has other cells" for key in said if said[key] != true.get(key, said[key]))
    keys = [key for key, _ in stated["members"]]
    if len(keys) != len(said) or [key for key in true if key in said] != [key for key in keys if key in true]:
        yield "set: its members are in another order"
    if stated["value"] != counted["value"]:
        yield f"set: its value is {counted['value']}, not {stated['value']}"
    if stated.get("groups", counted["groups"]) != counted["groups"]:  # of older receipts nobody noted them
        yield "set: its groups are others"
    if stated["digest"] != counted["digest"]:
        yield "set: it has another digest"
    if stated["query"] != query.payload():
        yield "set: its query has another form"
