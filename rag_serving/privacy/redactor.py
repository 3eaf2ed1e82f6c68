"""Texts without personal data: what is found is replaced by the name of its kind.

Belongs here: which finders are asked, overlaps, what takes the place of what was found; the redactor of this process's
log. Does not belong here: finding (`emails`, `accounts`, `phones`, `national_ids`, `names`), credentials
(`escaping.redaction`).

A text in which names were to be looked for, and could not be, is withheld as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from rag_serving.privacy.names import NamesError, name_finder

PersonalKind = Literal["email", "iban", "card", "national_id", "phone", "names"]
KINDS: tuple[PersonalKind, ...] = get_args(PersonalKind)
"""In the order in which they are looked for: of two that overlap, the first one counts."""
_MARKS: dict[PersonalKind, str] = {"names": "name"}
"""What takes the place of a kind, where that is not called like it."""
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
    """Finds personal data of some kinds.

    Attributes:
        regions: countries (ISO 3166) whose telephone numbers and ids are known.
        names_model: the folder of the model that finds names; None: none are looked for.
    """

    kinds: tuple[PersonalKind, ...] = ("email", "iban", "card", "national_id", "phone")
    regions: tuple[str, ...] = ()
    names_model: Path | None = None

    def find(self, text: str) -> list[PersonalData]:
        """Return what is personal in a text, in its order, without overlaps; all of it where names cannot be looked
        for."""
        try:
            return self._found(text)
        except NamesError:
            return [PersonalData("names", 0, len(text))]

    def redacted(self, text: str) -> str:
        """Return a text with `[email]`, `[phone]`, `[card]`, `[iban]`, `[national_id]` or `[name]` in place of personal
        data; where names cannot be looked for, the reason in place of the text."""
        try:
            found = self._found(text)
        except NamesError as error:
            return f"[withheld: {error}]"
        parts, end = [], 0
        for one in found:
            parts += [text[end : one.start], f"[{_MARKS.get(one.kind, one.kind)}]"]
            end = one.end
        return "".join([*parts, text[end:]]) if parts else text

    def _found(self, text: str) -> list[PersonalData]:
        ruled = _without_overlaps([PersonalData(kind, start, end) for kind, start, end in self._spans(text)])
        if "names" not in self.kinds or self.names_model is None or not text or text.isspace():
            return ruled
        names = name_finder(self.names_model).spans(text)
        return sorted([*ruled, *_beside(names, ruled, text)], key=lambda one: one.start)

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
            if kind in finders and kind in self.kinds and (has_digits or kind == "email"):
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


def _beside(names: Sequence[tuple[int, int]], found: Sequence[PersonalData], text: str) -> Iterator[PersonalData]:
    """Yield what names have of a text outside of what was found by rules: part of an address may be a name."""
    for start, end in names:
        for one in [*found, PersonalData("names", end, end)]:
            part = text[start : min(one.start, end)]
            if part.strip():
                yield PersonalData("names", start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
            start = max(start, one.end)


_of_logs: Redactor | None = None


def redact_logs(redactor: Redactor | None) -> None:
    """Take personal data out of every line that this process logs from now on; None: leave it."""
    global _of_logs
    _of_logs = redactor


def log_redacted(text: str) -> str:
    """Return a text as the log may have it."""
    return _of_logs.redacted(text) if _of_logs else text
