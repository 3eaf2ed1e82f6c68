"""What the reader sees: the answer with its markers, and a citation whose link lands on the quoted words.

Belongs here: quotes cut at word borders, links with anchor and text fragment, Markdown of an answer.
Does not belong here: whether a quote is true (`verify`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast
from urllib.parse import quote as percent_encoded

from rag_serving.records import Answer, Citation, Lock, Verdict, Verification
from rag_serving.sentences import unit_at, words
from rag_serving.untrusted import without_links

UNVERIFIED = "(not verified)"
MIN_QUOTE_WORDS, MAX_QUOTE_WORDS = 10, 15

_LINK = re.compile(r"!?\[([^\]\n]*)\]\((?:[^()\n]|\([^()\n]*\))*\)")
_MARKER = re.compile(r"(?:\s+|^|(?<=[.,;:!?]))\[\d{1,3}\](?!\()")
_EMPHASIS = re.compile(r"(\*\*|__|~~|`+|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))")


def citations_of(verdicts: Sequence[Verdict], lock: Lock) -> tuple[Citation, ...]:
    """The citations of the claims that were not dropped, in the order of the claims, each place once."""
    places = {(v.index, v.start, v.end): v for v in reversed(verdicts) if v.outcome != "dropped"}
    return tuple(_citation(verdict, lock) for verdict in reversed(places.values()))


def answer_text(verdicts: Sequence[Verdict], lock: Lock, mark_unverified: bool = False) -> str:
    """The claims that stand, a paragraph each, with `[index]` of their passages and without links these do not hold.

    Claims that do not stand are left out, or marked.
    """
    paragraphs = []
    for text, group in groupby(verdicts, lambda verdict: verdict.told or verdict.claim.text):
        members = list(group)
        indexes = list(dict.fromkeys(cast(int, v.index) for v in members if v.outcome != "dropped"))
        if indexes:
            paragraphs.append(f"{_cleaned(text, indexes, lock)} {''.join(f'[{index}]' for index in indexes)}")
        elif mark_unverified and (shown := _cleaned(text, [], lock)):
            paragraphs.append(f"{shown} {UNVERIFIED}")
    return "\n\n".join(paragraphs)


def explained(lock: Lock, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The locked passages with the scores of every stage and what became of the claims that cite them."""
    why: dict[int, list[str]] = {}
    for verdict in verdicts:
        index = verdict.index or verdict.claim.index
        why.setdefault(index, []).append(f"{verdict.outcome}: {verdict.reason}")
    return [
        {"index": index, **candidate.result(), "why": "; ".join(why.get(index, ["read, not cited"]))}
        for index, candidate in enumerate(lock.passages, start=1)
    ]


def markdown(answer: Answer) -> str:
    """The answer and its sources as Markdown."""
    lines = [answer.answer]
    if answer.citations:
        lines.append("")
    for citation in answer.citations:
        where = (
            f"{citation.space}, version {citation.page_version}"
            if citation.space
            else f"version {citation.page_version}"
        )
        lines.append(
            f"[{citation.index}] [{_escaped(citation.title)}]({citation.fragment_url}) ({where}): “{citation.quote}”"
        )
        lines += [f"    also at [{_escaped(place.title)}]({place.url}) ({place.space})" for place in citation.also_at]
    return "\n".join(lines)


def fragment_url(url: str, quote: str) -> str:
    """The link that scrolls to the quoted words: `url#anchor:~:text=…`.

    WICG, "URL Fragment Text Directives" (https://wicg.github.io/scroll-to-text-fragment/): `-`, `,` and `&` of the text
    are percent-encoded because they part the directive's terms. Markdown marks are left out: the page shows none.
    """
    text = plain(quote)
    return (
        f"{url}{'' if '#' in url else '#'}:~:text={percent_encoded(text, safe='').replace('-', '%2D')}" if text else url
    )


def plain(markdown_text: str) -> str:
    """Markdown as the page shows it: link texts alone, no emphasis or code marks, the longest cell of a table row."""
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", markdown_text))
    cells = [cell.strip() for cell in text.split(" | ")]
    return " ".join(max(cells, key=len).split())


def shown_quote(text: str, start: int, end: int) -> tuple[int, int]:
    """The range shown for the verified quote `text[start:end]`: 10 to 15 words cut at word borders of the original.

    A longer quote is cut after 15 words; a shorter one grows within its sentence, and is shorter where the sentence is.
    """
    inside = words(text, start, end)
    if len(inside) > MAX_QUOTE_WORDS:
        return inside[0][0], inside[MAX_QUOTE_WORDS - 1][1]
    unit = unit_at(text, start)
    if unit is None or len(inside) >= MIN_QUOTE_WORDS:
        return start, end
    missing = MIN_QUOTE_WORDS - len(inside)
    after = words(text, end, max(unit.end, end))[:missing]
    before = words(text, unit.start, start)
    before = before[max(0, len(before) - (missing - len(after))) :]
    return (before[0][0] if before else start), (after[-1][1] if after else end)


def _citation(verdict: Verdict, lock: Lock) -> Citation:
    index, start, end = cast(int, verdict.index), cast(int, verdict.start), cast(int, verdict.end)
    candidate = lock.passage(index)
    if candidate is None:
        raise IndexError(f"verdict cites [{index}] of a lock of {len(lock)}")
    chunk = candidate.chunk
    start, end = shown_quote(chunk.text, start, end)
    quote = chunk.text[start:end]
    return Citation(
        index=index,
        chunk_id=chunk.chunk_id,
        title=" → ".join(chunk.heading_path) or chunk.title,
        heading_path=chunk.heading_path,
        url=chunk.url,
        fragment_url=fragment_url(chunk.url, quote),
        quote=quote,
        space=chunk.space,
        page_version=chunk.version,
        verification=cast(Verification, verdict.outcome),
        start=start,
        end=end,
        also_at=chunk.also_at,
    )


def _cleaned(text: str, indexes: Sequence[int], lock: Lock) -> str:
    """A claim without links that its passages do not hold, and without markers that it wrote itself."""
    cited = [candidate for index in indexes if (candidate := lock.passage(index))]
    text, _ = without_links(text, "\n".join(candidate.chunk.text for candidate in cited))
    return _MARKER.sub("", text).strip()


def _escaped(title: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", title)
