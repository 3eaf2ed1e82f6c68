"""A checked text as lines, as Markdown and as SARIF, for people, chats and reviews of changes. SARIF 2.1.0:
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rag_serving.answering.citations import place_told
from rag_serving.escaping.targets import for_link, for_markdown, for_terminal_line
from rag_serving.records.answers import Checked, CheckedClaim, ClaimVerdict

TOLD: Mapping[ClaimVerdict, str] = {
    "verbatim": "word for word",
    "otherwise": "the page says otherwise",
    "closest": "closest",
    "absent": "not in the pages",
}
_LEVELS: Mapping[ClaimVerdict, str] = {"otherwise": "error", "absent": "warning", "closest": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_MOST = 500  # characters of a text in one line


class LinesAndColumns:
    """Lines and columns of a text, from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]

    def of(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a character."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def lines(checked: Checked, text: str, name: str) -> Iterator[str]:
    """Yield the report for a terminal: a line for each claim, below it what the page says."""
    places = LinesAndColumns(text)
    for claim in checked.claims:
        if claim.verdict == "no_claim":
            continue
        line, column = places.of(claim.start)
        yield for_terminal_line(f"{name}:{line}:{column}: {TOLD[claim.verdict]}: {_short(claim.text)}")
        if claim.citation and claim.verdict != "verbatim":
            yield for_terminal_line(f"    page: {_short(claim.page_says or claim.citation.quote)}")
        if claim.citation:
            where = f"{claim.citation.title} ({place_told(claim.citation)})"
            yield for_terminal_line(f"    {where}  {claim.citation.url}")
    yield told(checked)


def told(checked: Checked) -> str:
    """Return how many claims have each verdict, in words."""
    counts = ", ".join(f"{checked.summary[verdict]} {said}" for verdict, said in TOLD.items())
    number = sum(checked.summary[verdict] for verdict in TOLD)
    return f"{number} claim{'' if number == 1 else 's'}: {counts}"


def markdown(checked: Checked) -> str:
    """Return the report as a list, contradictions first."""
    return "\n".join(_listed(checked, sorted(checked.claims, key=lambda claim: claim.verdict != "otherwise")))


def evidence(checked: Checked, text: str) -> str:
    """Return the report below somebody's answer, in the answer's order; empty if it claims nothing."""
    fences = _FENCE.findall(text)
    closed = f"\n{fences[-1]}" if len(fences) % 2 else ""
    is_claimed = any(claim.verdict in TOLD for claim in checked.claims)
    return "\n".join([f"{closed}\n", "---", "", *_listed(checked, checked.claims)]) if is_claimed else ""


def _listed(checked: Checked, claims: Iterable[CheckedClaim]) -> list[str]:
    """Return the counts by verdict, then each claim with its verdict, link and, if they differ, the page's words."""
    return [f"{told(checked)}.", "", *(_marked(claim) for claim in claims if claim.verdict in TOLD)]


def sarif(checked: Checked, text: str, name: str) -> dict[str, Any]:
    """Return the report as a SARIF log of the claims that are not on a page word for word."""
    places = LinesAndColumns(text)
    rules = [
        {"id": verdict, "shortDescription": {"text": TOLD[verdict]}, "defaultConfiguration": {"level": level}}
        for verdict, level in _LEVELS.items()
    ]
    results = [_result(claim, places, name) for claim in checked.claims if claim.verdict in _LEVELS]
    driver = {"name": "citelock", "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(claim: CheckedClaim, places: LinesAndColumns, name: str) -> dict[str, Any]:
    (line, column), (end_line, end_column) = places.of(claim.start), places.of(claim.end)
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    said = f"{TOLD[claim.verdict]}: {_short(claim.text)}"
    if claim.citation:
        said += f"\n{_short(claim.page_says or '')}\n{claim.citation.title}: {claim.citation.url}"
    return {
        "ruleId": claim.verdict,
        "level": _LEVELS[claim.verdict],
        "message": {"text": said},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": for_link(name)}, "region": region}}],
    }


def _marked(claim: CheckedClaim) -> str:
    said = f"- **{TOLD[claim.verdict]}**: {for_markdown(_short(claim.text))}"
    if cited := claim.citation:
        if claim.verdict != "verbatim":
            said += f" – the page: “{for_markdown(_short(claim.page_says or cited.quote))}”"
        said += f" [[{cited.index}]]({for_link(cited.fragment_url)})"
    return said


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST else f"{plain[: _MOST - 1]}…"
