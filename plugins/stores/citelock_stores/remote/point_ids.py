"""Ids of what a server keeps of a generation: points, or documents.

Belongs here: from a number to an id and back. Does not belong here: kinds of points (the backends).

An id is a UUID whose upper half is a digest of (tenant, generation, kind of point) and whose lower half counts: the
same generation always has the same ids, and points of a kind come in their order.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from uuid import UUID

FORMAT = 1
"""Of what is kept of a generation."""
_PREFIX = len("01234567-89ab-cdef-")


def point_id(tenant: str, generation: str, kind: str, number: int) -> str:
    """Return the id of the point of a kind that has this number, such as a chunk's row."""
    return str(UUID(int=_upper(tenant, generation, kind) << 64 | number))


def id_prefix(tenant: str, generation: str, kind: str) -> str:
    """Return what the ids of a generation's points of a kind begin with, and no others."""
    return point_id(tenant, generation, kind, 0)[:_PREFIX]


def number_of(point: object) -> int:
    """Return the number that a point's id ends in; of thousands of points, so not by `UUID`.

    Raises:
        ValueError: it is no id of ours.
    """
    lower = str(point)[_PREFIX:]
    return int(lower[:4] + lower[5:], 16)


def _upper(tenant: str, generation: str, kind: str) -> int:
    name = json.dumps([FORMAT, tenant, generation, kind]).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")
