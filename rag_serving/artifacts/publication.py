"""The published generation, and earlier ones: the record beside the pointer, signed by the installation.

Belongs here: the record and its authenticity.
Does not belong here: its file (`store`), opening the generation (`indexes.current`).

The pointer is for people and scripts. Whoever can write it, but does not know the secret, cannot bring an older
generation back, which would show pages that were restricted since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_serving.artifacts.signatures import FIELD, signature_fault, signature_of

FILE = "published.json"
KEY_PURPOSE = "publication"
_FORMAT = 2


class PublicationError(Exception):
    """The record is not one that this installation signed for the tenant; the message says why, with the mend."""


@dataclass(frozen=True)
class Publication:
    """The published generation. `number` only grows: an older record that was put back has a lower one."""

    current: str
    number: int
    history: Mapping[str, str] = field(default_factory=dict)  # generation id -> when it was first published, ISO 8601


def published_after(before: Publication | None, generation_id: str, now: datetime) -> Publication:
    """Return the record of a generation published now; where the one before was lost, the clock numbers it."""
    history = {**(before.history if before else {})}
    history.setdefault(generation_id, now.isoformat(timespec="seconds"))
    number = max(before.number + 1 if before else 0, int(now.timestamp() * 1000))
    return Publication(generation_id, number, history)


def record_of(publication: Publication, home: Path, tenant: str) -> dict[str, Any]:
    """Return the record as JSON, signed.

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    content = {"format": _FORMAT, "tenant": tenant, **vars(publication)}
    return {**content, FIELD: signature_of(content, home, KEY_PURPOSE)}


def publication_of(record: object, home: Path, tenant: str) -> Publication:
    """Return the publication in a record.

    Raises:
        PublicationError: it is not signed, was altered, or is another tenant's.
    """
    if not isinstance(record, Mapping):
        raise PublicationError("is no record of what is published; `citelock build` makes it again")
    if fault := signature_fault(record, home, KEY_PURPOSE):
        raise PublicationError(fault)
    if (record["format"], record["tenant"]) != (_FORMAT, tenant):
        raise PublicationError(f"is of tenant {record['tenant']!r}, or of another version; `citelock build` mends it")
    return Publication(record["current"], record["number"], record["history"])
