"""The visible answer with its markers, and citations whose links lead to the quoted words. Text fragments: WICG, "URL
Fragment Text Directives" (https://wicg.github.io/scroll-to-text-fragment/): `text=[prefix-,]start[,end][,-suffix]`;
`-`, `,` and `&` of a text are percent-encoded because they part the directive's terms. A browser finds `start` within
one block of the page, so words of several blocks are named by the first and the last of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import Any, cast
from urllib.parse import quote as percent_encoded

from rag_serving.answering.quotes import trimmed
from rag_serving.answering.writing.sanitizing import without_links
from rag_serving.records.answers import Answer, Citation, ShownClaim, Verification
from rag_serving.records.claims import Verdict
from rag_serving.records.passages import Chunk, Lock, PagePart, ocr_told, page_told
from rag_serving.text.currency import docs_version
from rag_serving.text.structure import page_anchor, pages_of
from rag_serving.text.units import pieces, words

MOST_CHARS, MOST_LINES = 4_000, 80
CONTINUES = "… continues on the page"

_FENCE = re.compile(r"^[ \t]*(```|~~~)")


def excerpt(text: str) -> str:
    """Return the text, or of a long one its first lines and that it goes on; code is closed as it was opened."""
    if len(text) <= MOST_CHARS and text.count("\n") < MOST_LINES:
        return "\n".join([text, *_closing(text.split("\n"))])
    lines = text[:MOST_CHARS].split("\n")
    if len(text) > MOST_CHARS:
        lines[-1] = lines[-1].rpartition(" ")[0] if len(lines) == 1 and " " in lines[-1] else lines[-1]
        lines = lines[:-1] or lines
    lines = lines[:MOST_LINES]
    return "\n".join([*lines, *_closing(lines), CONTINUES])


def _closing(lines: Sequence[str]) -> list[str]:
    fences = [found[1] for line in lines if (found := _FENCE.match(line))]
    return fences[-1:] if len(fences) % 2 else []


IN_THE_MODELS_WORDS = "In the model's words, not verified:"
MIN_QUOTE_WORDS, MAX_QUOTE_WORDS = 10, 15
_WORDS_AROUND = 4  # that distinguish a quote from the same words elsewhere

_FENCES = ("\n```", "\n~~~")
_CLAIM_END = re.compile(rf"(?:(?<=\[\d\])|(?<=\[\d\d\]))\n\n|\n\n(?={re.escape(IN_THE_MODELS_WORDS)})")
_MARKER = re.compile(r"(?:(?<!\s)\s+|^|(?<=[.,;:!?]))\[\d{1,3}\](?!\()")


def citations_of(
    verdicts: Sequence[Verdict], lock: Lock, quote_max_words: int = MAX_QUOTE_WORDS
) -> tuple[Citation, ...]:
    """Return the citations of the claims that were not dropped, by number and in the order of the claims, each place
    once. `quote_max_words` limits the quotes further."""
    numbers = shown_numbers(verdicts)
    places: dict[tuple[int | None, int | None, int | None], Verdict] = {}
    for verdict in verdicts:
        if verdict.outcome != "dropped":
            places.setdefault((verdict.index, verdict.start, verdict.end), verdict)
    found = (_citation(verdict, lock, numbers, quote_max_words) for verdict in places.values())
    return tuple(sorted(found, key=lambda citation: citation.index))


def shown_numbers(verdicts: Iterable[Verdict]) -> dict[int, int]:
    """Return the number that each cited passage is shown under, by its place in the lock: the order in which the answer
    first cites them, from 1 without gaps."""
    cited = dict.fromkeys(verdict.index for verdict in verdicts if verdict.outcome != "dropped" and verdict.index)
    return {passage: number for number, passage in enumerate(cited, start=1)}


def answer_text(verdicts: Sequence[Verdict], lock: Lock, shows_unverified: bool = False) -> str:
    """Return the page's words of the verified claims, one paragraph each, with the numbers of their passages. A model's
    sentences that are not the page's own are left out, or follow in a distinct voice, without a number."""
    paragraphs, numbers = [], shown_numbers(verdicts)
    for text, group in groupby(verdicts, lambda verdict: verdict.told or verdict.claim.text):
        members = list(group)
        indexes = list(dict.fromkeys(cast(int, v.index) for v in members if v.outcome != "dropped"))
        if indexes:
            said, marks = excerpt(_cleaned(text, indexes, lock)), "".join(f"[{numbers[index]}]" for index in indexes)
            paragraphs.append(f"{said}{gap_before_markers(said)}{marks}")
        written = dict.fromkeys(verdict.claim.text for verdict in members if _is_models(verdict))
        for sentence in written if shows_unverified else ():
            paragraphs.append(f"{IN_THE_MODELS_WORDS} {_one_line(excerpt(_cleaned(sentence, [], lock)))}")
    return "\n\n".join(paragraphs)


def shown_claims(verdicts: Sequence[Verdict], lock: Lock, shows_unverified: bool = False) -> tuple[ShownClaim, ...]:
    """Return the shown claims: the page's words, and, if configured, a model's own."""
    claims, numbers = list[ShownClaim](), shown_numbers(verdicts)
    for verdict in verdicts:
        passage = lock.passage(verdict.index or 0)
        if verdict.outcome != "dropped" and passage:
            units = passage.chunk.parts.units
            start, end = verdict.start or 0, verdict.end or 0
            places = tuple(
                (cast(int, verdict.index), number)
                for number, unit in enumerate(units)
                if unit.of(passage.chunk.text) in verdict.told or (unit.start < end and start < unit.end)
            )
            claims.append(ShownClaim(verdict.told, "verbatim", places, numbers[cast(int, verdict.index)]))
        if shows_unverified and _is_models(verdict):
            claims.append(ShownClaim(_one_line(_cleaned(verdict.claim.text, [], lock)), "model"))
    return tuple(dict.fromkeys(claims))


def _is_models(verdict: Verdict) -> bool:
    return verdict.support != "verbatim" and not verdict.claim.is_selected and bool(verdict.claim.text.strip())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def claims_of(answer: Answer) -> list[str]:
    """Return the claims that an answer shows, each of one or more paragraphs and with its markers; of the closest
    passages also the line above them; of a set each line."""
    if answer.set:
        return [line for line in answer.answer.split("\n") if line]
    first, *others = _CLAIM_END.split(answer.answer)
    return [*(first.split("\n\n", 1) if answer.outcome == "closest" else [first]), *others]


def gap_before_markers(said: str) -> str:
    """Return the separator of a claim and its markers. Behind the fence that ends a block of code they would be part of
    the code (CommonMark, 4.5), and behind a row, or right below it, a cell too many, which is not shown (GitHub's
    Markdown, 4.10)."""
    if said.endswith(_FENCES):
        return "\n"
    return "\n\n" if said.rpartition("\n")[2].lstrip().startswith("|") else " "


def pinpointed(answer: Answer, lock: Lock, page_text: Callable[[str], str]) -> Answer:
    """Return the answer with links made unambiguous: the words around a quote distinguish it from the same words
    elsewhere on the page. `page_text` returns the text of a page by its id."""
    return replace(answer, citations=tuple(_pinpointed(citation, lock, page_text) for citation in answer.citations))


def _pinpointed(citation: Citation, lock: Lock, page_text: Callable[[str], str]) -> Citation:
    candidate = lock.passage(citation.passage)
    if candidate is None or not is_repeated(citation.quote, page_text(candidate.chunk.page_id)):
        return citation
    text = candidate.chunk.text
    before, after = words(text, 0, citation.start)[-_WORDS_AROUND:], words(text, citation.end)[:_WORDS_AROUND]
    link = fragment_url(
        citation.url,
        citation.quote,
        text[before[0][0] : before[-1][1]] if before else "",
        text[after[0][0] : after[-1][1]] if after else "",
    )
    return replace(citation, fragment_url=link)


def explained(lock: Lock, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the locked passages with the scores of every stage and the outcome of the claims that cite them. `passage`
    is the place in the lock, `index` its number in the answer, None if it is not cited."""
    numbers = shown_numbers(verdicts)
    why: dict[int, list[str]] = {}
    for verdict in verdicts:
        index = verdict.index or verdict.claim.index
        own = ", the sentence is the page's" if verdict.support == "verbatim" else ""
        why.setdefault(index, []).append(f"{verdict.outcome}: {verdict.reason}{own}")
    return [
        {
            "index": numbers.get(passage),
            "passage": passage,
            **candidate.result(),
            "why": "; ".join(why.get(passage, ["read, not cited"])),
        }
        for passage, candidate in enumerate(lock.passages, start=1)
    ]


def shown_quote(chunk: Chunk, start: int, end: int, most: int = MAX_QUOTE_WORDS) -> tuple[int, int]:
    """Return the range shown for the verified quote `chunk.text[start:end]`: 10 to 15 words cut at word borders of the
    original. A longer quote is cut after 15 words, or `most` if these are fewer; a shorter one grows within its
    sentence, and is shorter where the sentence is."""
    text, most = chunk.text, min(most, MAX_QUOTE_WORDS)
    inside = pieces(text, start, end)
    if len(inside) > most:
        return trimmed(text, inside[:most])
    unit = chunk.parts.unit_at(start)
    missing = min(MIN_QUOTE_WORDS, most) - len(inside)
    if unit is None or missing <= 0:
        return start, end
    after = pieces(text, end, max(unit.end, end))[:missing]
    before = pieces(text, unit.start, start)
    before = before[max(0, len(before) - (missing - len(after))) :]
    return trimmed(text, [*before, (start, end), *after])


def _citation(verdict: Verdict, lock: Lock, numbers: Mapping[int, int], quote_max_words: int) -> Citation:
    index, start, end = cast(int, verdict.index), cast(int, verdict.start), cast(int, verdict.end)
    candidate = lock.passage(index)
    if candidate is None:
        raise IndexError(f"verdict cites [{index}] of a lock of {len(lock)}")
    chunk = candidate.chunk
    start, end = shown_quote(chunk, start, end, quote_max_words)
    quote, page = chunk.text[start:end], chunk.page_at(start)
    read, url = chunk.ocr_confidence(start, end), chunk.url
    if page is not None and page != chunk.page_number:  # of a paged document that the quote begins on another page of
        url = f"{url.partition('#')[0]}#{page_anchor(page)}"
    pages = pages_of(chunk.parts.marks, start, end)
    return Citation(
        index=numbers[index],
        passage=index,
        chunk_id=chunk.chunk_id,
        title=" → ".join(chunk.heading_path) or chunk.title,
        heading_path=chunk.heading_path,
        url=url,
        fragment_url=fragment_url(url, quote),
        quote=quote,
        space=chunk.space,
        page_version=chunk.version,
        verification=cast(Verification, verdict.outcome) if read is None else "ocr",
        start=start,
        end=end,
        also_at=chunk.also_at,
        page_id=chunk.page_id,
        source=chunk.source,
        updated_at=chunk.updated_at,
        book=chunk.in_book,
        page=page,
        continued=tuple(PagePart(later) for later in pages if later != page),
        ocr_confidence=read,
    )


def place_told(citation: Citation) -> str:
    """Return the source of a quote in words: space, version, page of a document, OCR."""
    is_counted = (citation.page_id or citation.space) and not docs_version(citation.title.partition(" → ")[0])
    version = f"version {citation.page_version}" if is_counted else ""  # of the docs: the title has it
    return ", ".join(filter(None, (citation.space, version, page_read(citation))))


def page_read(citation: Citation) -> str:
    """Return a quote's page and OCR confidence in words; empty if neither applies."""
    page = page_told(citation.page, citation.page_label) if citation.page else ""
    read = ocr_told(citation.ocr_confidence) if citation.ocr_confidence is not None else ""
    return ", ".join(filter(None, (page, read)))


def _cleaned(text: str, indexes: Sequence[int], lock: Lock) -> str:
    """Return a claim without links that are missing from its passages, and without citation markers of its own."""
    cited = [candidate for index in indexes if (candidate := lock.passage(index))]
    text, _ = without_links(text, "\n".join(candidate.chunk.led_in for candidate in cited))
    return _MARKER.sub("", text).strip()


_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\((?:[^()\n]|\([^()\n]*\))*\)")
_EMPHASIS = re.compile(r"(\*\*|__|~~|`+|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))")
_FRAGMENT_MARKER = r"(?:[-*+]\s|\d{1,3}[.)]\s|\||#{1,6}\s|```|>)"
_BLOCK_BORDER = re.compile(rf"\n\s*\n|\n(?=\s*{_FRAGMENT_MARKER})")
_BLOCK_MARK = re.compile(rf"^\s*(?:{_FRAGMENT_MARKER}\s*)+")


def fragment_url(url: str, quote: str, before: str = "", after: str = "") -> str:
    """Return the link to the quoted words, `url#anchor:~:text=…`; the words around them distinguish other places."""
    blocks = [shown for block in _BLOCK_BORDER.split(quote) if (shown := plain(_BLOCK_MARK.sub("", block)))]
    if not blocks:
        return url
    terms = [_encoded(block) for block in dict.fromkeys((blocks[0], blocks[-1]))]
    if prefix := _encoded(_blocks_text(before)[-1]):
        terms.insert(0, f"{prefix}-")
    if suffix := _encoded(_blocks_text(after)[0]):
        terms.append(f"-{suffix}")
    return f"{url}{'' if '#' in url else '#'}:~:text={','.join(terms)}"


def is_repeated(quote: str, page: str) -> bool:
    """Return whether the page shows the quoted words more than once; browsers do not regard case."""
    shown = _visible(quote)
    return bool(shown) and _visible(page).count(shown) > 1


def plain(markdown_text: str) -> str:
    """Markdown as the page shows it: link texts alone, no emphasis or code marks, the longest cell of a table row."""
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", markdown_text))
    cells = [cell.strip() for cell in text.split(" | ")]
    return " ".join(max(cells, key=len).split())


def _blocks_text(text: str) -> list[str]:
    return [plain(_BLOCK_MARK.sub("", block)) for block in _BLOCK_BORDER.split(text)]


def _encoded(text: str) -> str:
    return percent_encoded(text, safe="").replace("-", "%2D")


@lru_cache(maxsize=64)
def _visible(text: str) -> str:
    """Return the visible text of a page or quote, in lower case; cached for repeatedly cited pages."""
    shown = _EMPHASIS.sub("", _LINK.sub(r"\1", text))
    lines = (_BLOCK_MARK.sub("", line).replace("|", " ") for line in shown.split("\n"))
    return " ".join(" ".join(lines).casefold().split())
