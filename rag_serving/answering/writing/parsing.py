"""Claims in a model's reply: a sentence, the passage it cites, the words it quotes. A citation may be before or after
the full stop, before its sentence, or with its quote in a sentence, a line or a block of their own. A sentence that
quotes nothing is a claim without a quote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_serving.answering.writing.sanitizing import (
    visible,
    without_brackets,
    without_html,
    without_images,
    without_links,
)
from rag_serving.records.claims import Claim
from rag_serving.text.units import Kind, units, words

_FENCE = re.compile(r"(?m)^[ \t]*(```|~~~)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL)
_BLOCK = re.compile(r"(?m)(?:^[ \t]*>[^\n]*\n?)+")
_CODE = re.compile(r"(?<!`)(`{1,12}+)(?!`)([^\n]+?)(?<!`)\1(?!`)")
# Two pairs that open with the same mark (German „…“ and English “…”): the first closing mark decides.
_IN = r"((?:[^{0}\n]|\n(?!\s*\n)){{1,600}}?)"
_QUOTE = re.compile(
    "|".join(
        (
            rf"(?<![\w\"]){re.escape(chr(34))}(?=\S){_IN.format(chr(34))}(?<=\S){re.escape(chr(34))}(?!\w)",
            rf"“{_IN.format('“”')}”",
            rf"„{_IN.format('„“”')}[“”\"]",
            rf"«{_IN.format('«»')}»",
            rf"»{_IN.format('«»')}«",
            rf"「{_IN.format('「」')}」",
            rf"『{_IN.format('『』')}』",
            rf"(?<!\w)[‘‚‹]{_IN.format('‘‹›‚')}[’‘›](?!\w)",
            r"(?<!\w)'(?=\S)((?:[^'\n]|(?<=\w)'(?=\w)){12,600}?)(?<=\S)'(?!\w)",
        )
    )
)
_NUMBER = r"\d{1,3}"
_SPACE = r"\s{0,4}+"  # inside of a citation
_LABEL = rf"(?:(?:passages?|sources?|docs?|documents?|refs?|no|nr)\.?{_SPACE})?"
_NUMBERS = rf"{_LABEL}#?{_SPACE}{_NUMBER}(?:{_SPACE}(?:[,;&–-]|and|und|to){_SPACE}{_LABEL}{_NUMBER}){{0,40}}"
_MARKER = re.compile(
    rf"\[{_SPACE}\^?{_SPACE}\[?{_SPACE}({_NUMBERS}){_SPACE}\]?{_SPACE}\](?:\([^()\n]*\))?"
    rf"|[【［〔]{_SPACE}({_NUMBERS}){_SPACE}(?:[†:][^】］〕\n]{{0,200}})?[】］〕]",
    re.IGNORECASE,
)
_TAIL = re.compile(rf"(?:\s{{0,4}}(?:{_MARKER.pattern})){{1,20}}[\s.]{{0,8}}$", re.IGNORECASE)
_BEHIND_QUOTE = re.compile(rf"(?<=[\U000f0000-\U000f3fff])(\s*)\({_SPACE}({_LABEL}{_NUMBER}){_SPACE}\)", re.IGNORECASE)
_LIST_RANGE = re.compile(rf"({_NUMBER}){_SPACE}(?:[–-]|to){_SPACE}{_LABEL}({_NUMBER})", re.IGNORECASE)

# Private characters and the text that they replace.
_QUOTES, _CODES, _MARKERS, _EACH = 0xF0000, 0xF4000, 0xF8000, 0x4000
QUOTE, CODE, CITATION = (f"[{chr(start)}-{chr(start + _EACH - 1)}]" for start in (_QUOTES, _CODES, _MARKERS))
MARK = re.compile(f"{QUOTE}|{CODE}|{CITATION}")
_CITATION_RUN = rf"{CITATION}(?:[\s,;]*+{CITATION})*+"
CITATIONS = re.compile(rf"(?<!\s)\s*+(?:\(\s*+{_CITATION_RUN}\s*+\)|{_CITATION_RUN})")
_OPENED = re.compile(rf"(?:(?<!\w)\"(?=\w)|[“„«])([^\n{CITATION[1:-1]}]{{2,}})")
_LINE_OF_ITS_OWN = re.compile(rf"(?m)(?<=\n)(?=[ \t]*{CITATION}[^\n]*\w)")

_LONGEST_RANGE, _LONGEST_NAME, _LONGEST_TAIL = 5, 80, 200


class Marks:
    """Text replaced by private characters."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[str, str]]] = {_QUOTES: [], _CODES: [], _MARKERS: []}

    def replaced(self, text: str) -> str:
        """Return the text with a private character for each quote, piece of code and citation."""
        text = _FENCE.sub(self._fenced, text)
        text = _CODE.sub(lambda m: self._keep(_CODES, m[2].strip(), m[0]), text)
        text = _BLOCK.sub(self._block, text)
        text = _QUOTE.sub(lambda m: self._keep(_QUOTES, self.plain(next(filter(None, m.groups()))), m[0]), text)
        text = _BEHIND_QUOTE.sub(lambda m: m[1] + self._keep(_MARKERS, m[2], m[0]), text)
        text = _MARKER.sub(lambda m: m[0] if _is_index(m) else self._keep(_MARKERS, m[1] or m[2], m[0]), text)
        text = _OPENED.sub(lambda m: self._keep(_QUOTES, self.plain(m[1]), m[0]), text)
        return _LINE_OF_ITS_OWN.sub("\n", text)

    def text(self, mark: str) -> str:
        """Return the words that a mark for a quote or code represents."""
        return self._of(mark)[0]

    def indexes(self, mark: str) -> list[int]:
        """Return the passages that a citation names."""
        said = self._of(mark)[0]
        found: list[int] = []
        for first, last in _LIST_RANGE.findall(said):
            if int(first) < int(last) < int(first) + _LONGEST_RANGE:
                found += range(int(first), int(last) + 1)
        return list(dict.fromkeys(found or [int(number) for number in re.findall(_NUMBER, said)]))

    def plain(self, text: str) -> str:
        """Return a text with its quotes and code expanded, and without its citations."""
        text = re.sub(f"{QUOTE}|{CODE}", lambda mark: self._of(mark[0])[1], CITATIONS.sub("", text))
        return text if not MARK.search(text) else self.plain(text)

    def _fenced(self, block: re.Match[str]) -> str:
        code = block[2].strip("\n").rstrip()
        return (
            f"\n\n{self._keep(_QUOTES, code.strip(), f'{chr(10)}```{chr(10)}{code}{chr(10)}```')}\n\n" if code else ""
        )

    def _block(self, block: re.Match[str]) -> str:
        """Return a block quote without its signs; citations at its end stay outside."""
        text = re.sub(r"(?m)^[ \t]*>[ \t]?", "", block[0]).strip()
        tail = _TAIL.search(text, max(0, len(text) - _LONGEST_TAIL))
        quoted = text[: tail.start()] if tail else text
        bare = self.plain(quoted).strip().strip('"“”„«»')
        return f"\n\n{self._keep(_QUOTES, bare, quoted)} {tail[0] if tail else ''}\n\n" if bare else "\n\n"

    def _keep(self, kind: int, text: str, original: str) -> str:
        kept = self._found[kind]
        if len(kept) == _EACH:
            return ""
        kept.append((text.strip(), original))
        return chr(kind + len(kept) - 1)

    def _of(self, mark: str) -> tuple[str, str]:
        code = ord(mark)
        kind = max(start for start in self._found if start <= code)
        return self._found[kind][code - kind]


def _is_index(marker: re.Match[str]) -> bool:
    """Return whether brackets belong to the code before them: `args[0]`, `log_dirs[1]`, `$path[2]`."""
    before = re.split(r"[^\w.$]", marker.string[max(0, marker.start() - _LONGEST_NAME) : marker.start()])[-1]
    return bool(before) and (marker[1] == "0" or re.search(r"[_$]|\w\.\w", before) is not None)


_DECLINED = re.compile(
    r"\bnot\s+found\s+in\s+(?:the\s+|these\s+|any\s+)?(?:docs?|documents?|documentation|passages?|sources?|pages?)\b"
    r"|\b(?:could|can|was)\s?n[o']t\b.{0,30}\b(?:find|found)\b.{0,60}\b(?:docs?|documents?|documentation|passages?)\b"
    r"|\b(?:docs?|documents?|documentation|passages?)\b.{0,20}\b(?:do|does)\s?n[o']t\s+"
    r"(?:contain|mention|say|state|answer|provide|cover|include|specify)\b"
    r"|\bnicht\s+in\s+d(?:en|er)\s+\w*(?:docs|dokument\w*|passagen|textstellen)\s+(?:gefunden|enthalten)",
    re.IGNORECASE | re.DOTALL,
)

_EVIDENCE = re.compile(rf"(?:(?:{QUOTE}|{CODE})?[\s(,;.:–—-]*(?:{CITATION}[\s,;.)]*)+)+")
_BEHIND_CITATION = re.compile(
    rf"(?<={CITATION})(?:[\s.,;:)]*(?=[A-ZÀ-ÖØ-Þ])|[\s)]*[.!?][\s)]+(?=[^\s{QUOTE[1:-1]}{CODE[1:-1]}{CITATION[1:-1]}]))"
)
_FULL_STOP_AND_LINE = re.compile(r"(?<=[.!?…])[ \t]*\n(?=[ \t]*[^\s>|*+-])")
_MOST_CHARS = 20_000
_MOST_CLAIMS = 60
_UNCITED_QUOTE_WORDS = 4
_SHORTEST_CODE = 8


@dataclass(frozen=True)
class Parsed:
    """A parsed reply."""

    claims: tuple[Claim, ...]
    declined: bool  # it reports that nothing was found
    removed: int  # pieces of HTML that were taken out
    links: int = 0  # links that were


@dataclass
class _ReplyPart:
    """A sentence with the marks in it, and those after it as its evidence."""

    shown: str
    evidence: str = ""

    @property
    def marks(self) -> str:
        return self.shown + self.evidence

    @property
    def is_cited(self) -> bool:
        return re.search(CITATION, self.marks) is not None

    @property
    def awaits_evidence(self) -> bool:
        """Whether a quote or code in the next paragraph may belong to it."""
        return not self.is_cited or not re.search(QUOTE, self.marks) or self.shown.rstrip().endswith(":")

    def add(self, evidence: str) -> None:
        """Take in the quote and the citation behind it; only what a colon announces is shown."""
        if self.shown.rstrip().endswith(":"):
            self.shown += " " + evidence
        else:
            self.evidence += evidence


def parse(reply: str, cut: bool = False, source: str | None = None) -> Parsed:
    """Return the claims of a reply in order. A sentence without a citation is a claim on passage 0. If the reply was
    cut, an unfinished last sentence is left out. Links missing from `source` are removed; without `source` they
    stay."""
    text, removed = without_html(visible(reply[:_MOST_CHARS]))
    links = 0
    if source is not None:
        text, images = without_images(text)
        text, links = without_links(without_brackets(text), source)
        links += images
    marks = Marks()
    parts = list(_parts(_FULL_STOP_AND_LINE.sub("\n\n", marks.replaced(text))))[:_MOST_CLAIMS]
    if cut and parts and not _is_finished(parts[-1]):
        parts.pop()
    claims = [claim for part in parts for claim in _claims(part, marks)]
    return Parsed(tuple(claims), _DECLINED.search(text) is not None, removed, links)


def _parts(text: str) -> Iterator[_ReplyPart]:
    last: _ReplyPart | None = None
    for said, joined, kind in _said(text):
        joined = joined and last is not None
        bare = re.search(r"\w", MARK.sub("", said)) is None
        if last and bare and MARK.search(said) and (joined or last.awaits_evidence):
            last.add(said)
            continue
        leading = _EVIDENCE.match(said)
        if last and joined and leading and _belongs_before(said, leading, last):
            last.evidence += leading[0]
            said = said[leading.end() :]
        if kind in ("heading", "header") and not re.search(CITATION, said):
            continue
        if last:
            yield last
        last = _ReplyPart(said.strip())
    if last:
        yield last


def _said(text: str) -> Iterator[tuple[str, bool, Kind]]:
    """Yield the sentences of a marked text, whether each continues the one before, and its kind. Text after a citation
    and a full stop, or with a capital after a citation, is a sentence of its own."""
    end = 0
    for unit in units(text):
        between, end = text[end : unit.start], unit.end
        joined = not between.strip() and not re.search(r"\n\s*\n", between)
        said = unit.of(text)
        ahead = re.match(rf"(?:{CITATION}[\s,;:]*)*", said)
        start = ahead.end() if ahead else 0
        first, *others = _BEHIND_CITATION.split(said[start:])
        yield said[:start] + first, joined, unit.kind
        for sentence in others:
            yield sentence, True, unit.kind


def _belongs_before(said: str, leading: re.Match[str], last: _ReplyPart) -> bool:
    """Return whether the marks at the beginning of a sentence are the evidence of the one before."""
    if said[leading.end() : leading.end() + 1].islower():
        return False
    return not last.is_cited or not re.match(CITATION, said)


def _claims(part: _ReplyPart, marks: Marks) -> Iterator[Claim]:
    text = _sentence(part, marks)
    if not text:
        return
    quotes = _primary(part, marks)
    strings = [marks.text(mark) for mark in re.findall(f"{QUOTE}|{CODE}", part.marks)]
    if not quotes:
        cited = [index for mark in re.findall(CITATION, part.marks) for index in marks.indexes(mark)]
        for index in list(dict.fromkeys(cited)) or [0]:
            yield Claim(text, index, "", tuple(strings))
        return
    for at, mark in quotes:
        quote = marks.text(mark)
        others = tuple(string for string in strings if string != quote)
        for index in _cited_by(at, part.marks, marks):
            yield Claim(text, index, quote, others)


def _primary(part: _ReplyPart, marks: Marks) -> list[tuple[int, str]]:
    """Return the quotes of a sentence with their places; its code if it quotes nothing else."""
    found = [(match.start(), match[0]) for match in re.finditer(QUOTE, part.marks)]
    if not part.is_cited:
        return [(at, mark) for at, mark in found if len(words(marks.text(mark))) >= _UNCITED_QUOTE_WORDS]
    if found:
        return found
    codes = [(match.start(), match[0]) for match in re.finditer(CODE, part.marks)]
    return [(at, mark) for at, mark in codes if len(marks.text(mark)) >= _SHORTEST_CODE]


def _cited_by(at: int, marked: str, marks: Marks) -> list[int]:
    """Return the passages that a quote at this place is said to be from: those named behind it, else just before."""
    behind = re.search(rf"{CITATION}(?:[\s,;]*{CITATION})*", marked[at:])
    run = behind[0] if behind else "".join(re.findall(rf"{CITATION}(?:[\s,;]*{CITATION})*", marked[:at])[-1:])
    return list(dict.fromkeys(index for mark in re.findall(CITATION, run) for index in marks.indexes(mark))) or [0]


def _sentence(part: _ReplyPart, marks: Marks) -> str:
    """Return the words of a sentence, without citations; of one that only quotes, the quote."""
    shown = re.sub(r"\(\s*\)|\[\s*\]", "", CITATIONS.sub(" ", part.shown)).strip()
    if re.fullmatch(rf"[\s.,;:]*{QUOTE}[\s.,;:]*", shown):
        mark = re.findall(QUOTE, shown)[0]
        original = marks.plain(mark).strip()
        return original if original.startswith("```") else marks.text(mark)
    text = re.sub(r"(?<![ \t])[ \t]++(?=[.,;:!?](?:\s|$)|\n)", "", marks.plain(shown))
    return re.sub(r"(?<=\S)[ \t]{2,}", " ", text).strip()


def _is_finished(part: _ReplyPart) -> bool:
    return bool(re.search(rf"(?:[.!?…。！？]|{CITATION})[\s)*_\"”“»]*$", part.marks.strip()))
