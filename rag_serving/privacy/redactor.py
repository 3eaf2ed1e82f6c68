"""Texts without personal data: what is found is replaced by the name of its kind.

Belongs here: which finders are asked, overlaps, what takes the place of what was found; the redactor of this process's
log. Does not belong here: finding (`emails`, `accounts`, `phones`, `national_ids`), credentials
(`escaping.redaction`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

PersonalKind = Literal["email", "iban", "card", "national_id", "phone"]
KINDS: tuple[PersonalKind, ...] = get_args(PersonalKind)
"""In the order in which they are looked for: of two that overlap, the first one counts."""
_DIGIT = re.compile(r"\d")
Finder = Callable[[str], Iterator[tuple[int, int]]]


@dataclass(frozen=True)
class PersonalData:
    """Something personal in a text, from `start` to `end`."""

    kind: PersonalKind
    start: int
    end: int


@dataclass(frozen=True)
class Redactor:
    """Finds personal data of some kinds. `regions`: countries (ISO 3166) whose telephone numbers and ids are known."""

    kinds: tuple[PersonalKind, ...] = KINDS
    regions: tuple[str, ...] = ()

    def find(self, text: str) -> list[PersonalData]:
        """Return what is personal in a text, in its order, without overlaps."""
        found: list[PersonalData] = []
        for kind, start, end in self._spans(text):
            found.append(PersonalData(kind, start, end))
        return _without_overlaps(found)

    def redacted(self, text: str) -> str:
        """Return a text with `[email]`, `[phone]`, `[card]`, `[iban]` or `[national_id]` in place of personal data."""
        parts, end = [], 0
        for one in self.find(text):
            parts += [text[end : one.start], f"[{one.kind}]"]
            end = one.end
        return "".join([*parts, text[end:]]) if parts else text

    def _spans(self, text: str) -> Iterator[tuple[PersonalKind, int, int]]:
        # Every command has a redactor, few find anything: the patterns of all kinds take a while to compile.
        from rag_serving.privacy.accounts import card_spans, iban_spans
        from rag_serving.privacy.emails import email_spans
        from rag_serving.privacy.national_ids import national_id_spans
        from rag_serving.privacy.phones import phone_spans

        finders: dict[PersonalKind, Finder] = {
            "email": email_spans,
            "iban": iban_spans,
            "card": card_spans,
            "national_id": partial(national_id_spans, regions=self.regions),
            "phone": partial(phone_spans, regions=self.regions),
        }
        has_digits = _DIGIT.search(text) is not None
        for kind in KINDS:
            if kind in self.kinds and (has_digits or kind == "email"):
                for start, end in finders[kind](text):
                    yield kind, start, end


def _without_overlaps(found: Sequence[PersonalData]) -> list[PersonalData]:
    """Return those that overlap none of an earlier kind, in the order of the text."""
    rank = {kind: number for number, kind in enumerate(KINDS)}
    kept: list[PersonalData] = []
    for one in sorted(found, key=lambda one: (one.start, rank[one.kind], -one.end)):
        if kept and one.start < kept[-1].end:
            if rank[one.kind] < rank[kept[-1].kind]:
                kept[-1] = one
            continue
        kept.append(one)
    return kept


_of_logs: Redactor | None = None


def redact_logs(redactor: Redactor | None) -> None:
    """Take personal data out of every line that this process logs from now on; None: leave it."""
    global _of_logs
    _of_logs = redactor


def log_redacted(text: str) -> str:
    """Return a text as the log may have it."""
    return _of_logs.redacted(text) if _of_logs else text
