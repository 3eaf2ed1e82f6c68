"""Drafts of gold questions out of what readers found wrong, for a person to complete and accept.

Belongs here: which questions are drafted, their YAML. Does not belong here: reading gold sets (`gold`), the telemetry
database (`telemetry_rows`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# What YAML does not print (https://yaml.org/spec/1.2.2/#51-character-set), or takes for the end of a line.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)

BAD = ("not_helpful", "wrong_citation", "missing")


@dataclass(frozen=True)
class Complaint:
    """One question that readers were not content with."""

    receipt_id: str
    question: str
    status: str
    verdicts: tuple[str, ...]
    comments: tuple[str, ...] = ()
    cited: Sequence[Mapping[str, Any]] = field(default=())  # citations of the receipt

    @property
    def page(self) -> str:
        """The first cited page; nothing where readers say that the citation is wrong or something is missing."""
        if not self.cited or set(self.verdicts) & {"wrong_citation", "missing"}:
            return ""
        return str(self.cited[0]["chunk_id"]).rsplit(":", 2)[0]


def complaints(
    feedback: Iterable[Mapping[str, Any]],
    questions: Iterable[Mapping[str, Any]],
    receipts: Mapping[str, Mapping[str, Any]],
) -> tuple[list[Complaint], int]:
    """Return what readers complained of, most often first, and how many answers are left out: their question was not
    kept.

    `feedback` and `questions` are rows of the telemetry tables, `receipts` those that are still there, opened, by id.
    Only questions whose text telemetry was allowed to keep are drafted, and those that a reader reported as `missing`:
    he asks for their answer to be written, and their receipts have the text.
    """
    asked = {row["receipt_id"]: row for row in questions if row["receipt_id"]}
    bad: dict[str, list[Mapping[str, Any]]] = {}
    for row in feedback:
        if row["verdict"] in BAD:
            bad.setdefault(row["receipt_id"], []).append(row)
    found = {}
    for receipt_id, rows in bad.items():
        receipt = receipts.get(receipt_id, {})
        question = asked.get(receipt_id, {}).get("question")
        if not question and any(row["verdict"] == "missing" for row in rows):
            question = receipt.get("question")
        if question:
            status = asked.get(receipt_id, receipt).get("status")
            found[receipt_id] = _complaint(receipt_id, str(question), str(status), rows, receipt)
    return sorted(found.values(), key=lambda complaint: (-len(complaint.verdicts), complaint.receipt_id)), len(
        bad
    ) - len(found)


def to_yaml(tenant: str, drafted: Sequence[Complaint]) -> str:
    """Return a gold set to be completed by hand: what is known of the answer stands in comments.

    Texts are written as JSON strings, which YAML reads: nothing that a reader wrote can become a key or a comment.
    """
    lines = ["# Drafts from readers' feedback: complete page and quote, or set answerable: false; drop the others."]
    lines += [f"tenant: {_quoted(tenant)}", "questions:" if drafted else "questions: []"]
    for complaint in drafted:
        lines += [f"  # {_quoted(line)}" for line in _known(complaint)]
        lines += [
            f"  - id: {_quoted(f'feedback-{complaint.receipt_id[:8]}')}",
            f"    question: {_quoted(complaint.question)}",
            "    answerable: true",
            f"    page: {_quoted(complaint.page)}",
            '    quote: ""',
            "    tags: [feedback]",
        ]
    return "\n".join(lines) + "\n"


def _complaint(
    receipt_id: str, question: str, status: str, rows: Sequence[Mapping[str, Any]], receipt: Mapping[str, Any]
) -> Complaint:
    return Complaint(
        receipt_id,
        question,
        status,
        tuple(str(row["verdict"]) for row in rows),
        tuple(str(row["comment"]) for row in rows if row["comment"]),
        receipt.get("citations", ()),
    )


def _known(complaint: Complaint) -> list[str]:
    cited = [f"cited: {each['url']} “{each['quote']}”" for each in complaint.cited]
    comments = [f"reader: {comment}" for comment in complaint.comments]
    return [f"{complaint.status}; {', '.join(complaint.verdicts)}; receipt {complaint.receipt_id}", *cited, *comments]


def _quoted(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped)
