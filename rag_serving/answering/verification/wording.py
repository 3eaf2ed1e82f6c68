"""Whether two wordings differ only by slips: a letter, a grammatical ending, an article.

Belongs here: comparing two texts word by word. Does not belong here: figures and negations (`support`), where a quote
stands (`quotes`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

_TOKEN = re.compile(r"\S+")
_TRIM = "\"'`*_()[]{}|,;:!?."
_SLIP = re.compile(r"[^\W\d_][^\W\d_A-Z]*")
# Words that may be lost or added.
_ARTICLES_OF_SIX_LANGUAGES = """
a an the der die das den dem des ein eine einen einem einer le la les l un une el los las lo il gli
"""
_ARTICLES = frozenset(_ARTICLES_OF_SIX_LANGUAGES.split())
_SAME_BEGINNING, _SHORTEST_SLIP, _ALIKE = 3, 4, 80.0


def overhang(passage_words: str, quote: str) -> tuple[int, int] | None:
    """Return how many characters at either edge of `passage_words` hold words that the quote lacks, if the rest agrees.

    Words agree if they are the same but for a slip and stand in the same order; an article more or less is none. None
    where any other word was lost, added or exchanged.
    """
    if _strange_letters(quote, passage_words) or quote.count("...") != passage_words.count("..."):
        return None
    spans = [match.span() for match in _TOKEN.finditer(passage_words) if match[0].strip(_TRIM)]
    ours = [passage_words[start:end].strip(_TRIM) for start, end in spans]
    theirs = [token for piece in _TOKEN.findall(quote) if (token := piece.strip(_TRIM))]
    first, last = 0, len(ours)
    kinds = set()
    for step in Levenshtein.opcodes(ours, theirs):
        kind, own, own_end = step.tag, step.src_start, step.src_end
        if kind == "delete" and own == 0:
            first = own_end
        elif kind == "delete" and own_end == len(ours):
            last = own
        elif kind != "equal" and not _is_slip(ours[own:own_end], theirs[step.dest_start : step.dest_end]):
            return None
        else:
            kinds.add(kind)
    if first >= last or kinds >= {"insert", "delete"}:  # a word that was moved
        return None
    return (spans[first][0] if first else 0), (len(passage_words) - spans[last - 1][1] if last < len(ours) else 0)


def _is_slip(ours: list[str], theirs: list[str]) -> bool:
    """Return whether these words, which are not the same, may stand for each other."""
    if len(ours) != len(theirs):
        return all(word.lower() in _ARTICLES for word in (*ours, *theirs))
    return all(_are_alike(one, two) for one, two in zip(ours, theirs, strict=True))


def _are_alike(one: str, two: str) -> bool:
    """Return whether two words are one but for its case at the beginning, an ending or a letter.

    Only words of plain lower case may slip: identifiers, acronyms and figures must be the same to the letter.
    """
    if not (_SLIP.fullmatch(one) and _SLIP.fullmatch(two)):
        return one == two
    one, two = one.lower(), two.lower()
    if one == two or {one, two} <= _ARTICLES:
        return True
    return (
        min(len(one), len(two)) >= _SHORTEST_SLIP
        and one[:_SAME_BEGINNING] == two[:_SAME_BEGINNING]
        and fuzz.ratio(one, two) >= _ALIKE
    )


def _strange_letters(quote: str, passage_words: str) -> bool:
    """Return whether the quote has letters or digits from beyond ASCII that the text does not, accents aside."""
    strange = Counter(c for c in quote if not c.isascii() and c.isalnum())
    strange.subtract(c for c in passage_words if not c.isascii() and c.isalnum())
    return any(count > 0 and not unicodedata.normalize("NFD", c)[0].isascii() for c, count in strange.items())
