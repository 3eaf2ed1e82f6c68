"""One fault of a wiki, which people may acknowledge: its shape, its id, acknowledgements."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import pyarrow as pa

from rag_serving.records.passages import Chunk

Kind = Literal["contradiction", "dead_link", "overdue_review", "no_owner", "drifting_copy"]
HEADINGS: Mapping[Kind, str] = {
    "contradiction": "Other values for the same",
    "dead_link": "Links that lead nowhere",
    "overdue_review": "Pages past their review date",
    "no_owner": "Pages without an owner",
    "drifting_copy": "Copies that drift apart",
}


@dataclass(frozen=True)
class Quote:
    """A page's words, and their place."""

    page_id: str
    title: str  # with its heading
    text: str
    url: str
    file: str | None = None  # below the source's folder

    @classmethod
    def of(cls, chunk: Chunk, text: str) -> Quote:
        """Return a text of a passage as a quote."""
        below = [heading for heading in chunk.heading_path[-1:] if heading != chunk.title]
        return cls(chunk.page_id, " › ".join([chunk.title, *below]), text, chunk.url, chunk.source_file)


_COLUMNS = [name for name in Chunk.__dataclass_fields__ if name != "also_at"]


def records_of(table: pa.Table, rows: Sequence[int]) -> list[Chunk]:
    """Return some rows of CHUNKS as records."""
    named = [name for name in _COLUMNS if name in table.column_names]
    columns = table.select(named).take(pa.array(rows, pa.int64())).to_pydict()
    for name in ("heading_path", "labels"):
        columns[name] = [tuple(values or ()) for values in columns[name]]
    return [Chunk(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


@dataclass(frozen=True)
class LintFinding:
    """Something to fix, with the texts that show it. `about`: its subject: the thing with two values, the target of a
    link, a date. `confidence`: 0 to 1, of contradictions; 1 if certain. `asked`: the number of questions of the last
    days for the most requested of its pages."""

    kind: Kind
    space: str
    about: str
    quotes: tuple[Quote, ...]
    confidence: float = 1.0
    asked: int = 0

    @property
    def id(self) -> str:
        """Return the id for acknowledgements: it changes with a quoted text, and with nothing else."""
        texts = sorted(f"{quote.page_id}\n{quote.text}" for quote in self.quotes)
        return hashlib.sha256("\0".join([self.kind, self.about, *texts]).encode("utf-8", "replace")).hexdigest()[:12]


def finding_of(values: Mapping[str, Any]) -> LintFinding:
    """Return a finding from its JSON shape (`dataclasses.asdict`)."""
    return LintFinding(**{**values, "quotes": tuple(Quote(**quote) for quote in values["quotes"])})


@dataclass(frozen=True)
class Acknowledgement:
    """The acknowledgement of a finding, why it stays, and until when."""

    id: str
    reason: str
    until: date | None = None


def acknowledgements(content: object) -> dict[str, Acknowledgement]:
    """Return the acknowledgements in a YAML file, by id: `acknowledged: [{id, reason, until?, date?}]`.

    Raises ValueError: it is of another shape; the message says where.
    """
    entries = content.get("acknowledged", ()) if isinstance(content, dict) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ValueError("`acknowledged` is a list of `{id, reason, until}`")
    known = {}
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not (entry.get("id") and str(entry.get("reason") or "").strip()):
            raise ValueError(f"entry {number} needs an `id` and a `reason`")
        until = entry.get("until")
        if until is not None and not isinstance(until, date):
            raise ValueError(f"entry {number}: `until` is a date such as 2026-12-31")
        known[str(entry["id"])] = Acknowledgement(str(entry["id"]), str(entry["reason"]), until)
    return known


def is_open(finding: LintFinding, known: Mapping[str, Acknowledgement], today: date) -> bool:
    """Return whether nobody has acknowledged a finding, or only until a day that is past."""
    entry = known.get(finding.id)
    return entry is None or (entry.until is not None and entry.until < today)


def counted(findings: Sequence[LintFinding], asked: Mapping[str, int]) -> list[LintFinding]:
    """Return findings in their order, with how often each one's pages are asked about, by page id."""
    counts = (max((asked.get(quote.page_id, 0) for quote in one.quotes), default=0) for one in findings)
    return in_order(replace(one, asked=count) for one, count in zip(findings, counts, strict=True))


def in_order(findings: Iterable[LintFinding]) -> list[LintFinding]:
    """Return findings in display order: by space and kind, those with the most questions first, then the surest."""
    kinds = list(HEADINGS)
    return sorted(findings, key=lambda one: (one.space, kinds.index(one.kind), -one.asked, -one.confidence, one.id))
