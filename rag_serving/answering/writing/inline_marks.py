"""Quotes, code and citations in a text that a model wrote, each replaced by one private character.

What is left can be split into sentences like any other text. Citations come in the forms that real models write: `[1]`,
`[1, 2]`, `[1-2]`, `【1†source】`, `[^1]`, `[Passage 1]`, and `(1)` behind a quote; quotes straight, curly, German,
French, Japanese, single, as a block or as a code block, and where the second mark is missing to the end of the line.

Belongs here: what counts as a quote, code, a citation. Does not belong here: which belong together (`parsing`).
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"(?m)^[ \t]*(```|~~~)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL)
_BLOCK = re.compile(r"(?m)(?:^[ \t]*>[^\n]*\n?)+")
_CODE = re.compile(r"(?<!`)(`{1,12}+)(?!`)([^\n]+?)(?<!`)\1(?!`)")
# Two pairs that open with the same mark (German „…“ and English “…”) are told apart by what comes first.
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

# Where private characters stand for what they replace.
_QUOTES, _CODES, _MARKERS, _EACH = 0xF0000, 0xF4000, 0xF8000, 0x4000
QUOTE, CODE, CITATION = (f"[{chr(start)}-{chr(start + _EACH - 1)}]" for start in (_QUOTES, _CODES, _MARKERS))
MARK = re.compile(f"{QUOTE}|{CODE}|{CITATION}")
_CITATION_RUN = rf"{CITATION}(?:[\s,;]*+{CITATION})*+"
CITATIONS = re.compile(rf"(?<!\s)\s*+(?:\(\s*+{_CITATION_RUN}\s*+\)|{_CITATION_RUN})")
_OPENED = re.compile(rf"(?:(?<!\w)\"(?=\w)|[“„«])([^\n{CITATION[1:-1]}]{{2,}})")
_LINE_OF_ITS_OWN = re.compile(rf"(?m)(?<=\n)(?=[ \t]*{CITATION}[^\n]*\w)")

_LONGEST_RANGE, _LONGEST_NAME, _LONGEST_TAIL = 5, 80, 200


class Marks:
    """What was replaced by private characters."""

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
        """Return the words that a quote or piece of code stands for."""
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
        """Return a text with what its quotes and code stand for, and without its citations."""
        text = re.sub(f"{QUOTE}|{CODE}", lambda mark: self._of(mark[0])[1], CITATIONS.sub("", text))
        return text if not MARK.search(text) else self.plain(text)

    def _fenced(self, block: re.Match[str]) -> str:
        """Return a code block, which stands by itself."""
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
