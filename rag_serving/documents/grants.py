"""Grants of read access to an uploaded document: an editor grants no more than he has.

Belongs here: the caller's possible grants, and parsing the `readers` of an upload.
Does not belong here: reader classes (`access.principals`).

An editor may grant everyone of the tenant, each of his own groups, and himself; not other groups and users, whose names
he would have to know. A list is of alternatives: each of them may read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rag_serving.access.principals import EVERYONE, Principal, reader_class

MAX_READERS = 100
MAX_CHARS = 20_000


class GrantError(Exception):
    """Readers that are none, or that the caller may not grant; the message is one line."""


def grantable(principal: Principal) -> list[str]:
    """Return the caller's possible grants, the narrowest first."""
    return [*sorted(principal.names, key=lambda name: (not name.startswith("user:"), name)), EVERYONE]


def granted(principal: Principal, asked: str | None) -> str | None:
    """Return the reader class of the field `readers`; None if it is empty.

    Args:
        principal: the uploader.
        asked: `everyone`, one principal, or a JSON list of them.

    Raises:
        GrantError: it is malformed, or names readers that the caller may not grant.
    """
    if asked is None or not asked.strip():
        return None
    names = _listed(asked.strip())
    allowed = set(grantable(principal))
    if not names or not allowed.issuperset(names):
        raise GrantError("`readers` may be everyone, or a list of your own groups and yourself: see GET /v1/documents")
    return class_of(names)


def narrowest(principal: Principal) -> str:
    """Return the default readers of a document: its uploader, else the members of all his groups."""
    if principal.user:
        return reader_class([[f"user:{principal.user}"]])
    return reader_class([[name] for name in principal.names])


def class_of(names: Sequence[str]) -> str:
    """Return the reader class of a list of alternatives."""
    return EVERYONE if EVERYONE in names else reader_class([names])


def named_class(names: Sequence[str]) -> str:
    """Return the reader class of alternatives that a person with access to the machine names.

    Raises:
        GrantError: one is neither everyone nor a group or user.
    """
    for name in names:
        if name != EVERYONE and not (name.startswith(("group:", "user:")) and name.isprintable()):
            raise GrantError(f"reader {name!r} is neither everyone nor group:NAME or user:NAME")
    return class_of(names)


def _listed(asked: str) -> list[str]:
    if not asked.startswith("["):
        return [asked]
    try:
        names: list[str] = json.loads(asked[:MAX_CHARS])
    except (ValueError, RecursionError):
        raise GrantError("`readers` is neither everyone nor a JSON list") from None
    if not all(isinstance(name, str) for name in names) or len(names) > MAX_READERS:
        raise GrantError(f"`readers` is a list of at most {MAX_READERS} names")
    return names
