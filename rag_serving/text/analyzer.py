"""Text as BM25 terms: stemmed words, and identifiers both whole and in parts. A search for `max.poll.records`,
`maxPollRecords`, `poll records` or `ERR-4012` means the name on the page. So `org.apache.KafkaConsumer` gives the whole
name, each dotted part, and the words of the camel-cased part."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Any

from rag_serving.text.normalization import UNSPACED

ANALYZER_VERSION = 3

_LONGEST_TERM = 80
_LONGEST_NAME = 400  # a longer run (base64, minified code) is cut: nobody types it
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0fbc"  # \w leaves combining marks out
_WORD = re.compile(
    rf"(?:(?<![\w-])--(?=[A-Za-z]))?[\w{_MARKS}]+(?:(?:::|://|[-./:@\\$&'’])[\w{_MARKS}]+)*(?:\+\+|\#(?!\w))?"
)
_LEVELS = tuple(re.compile(level) for level in (r"[/\\@&$]|:+(?://)?", r"\.", r"-", r"_+"))
_CAMEL = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z\d_]+|\d+")
_UNSPACED = re.compile(f"[{UNSPACED}]+")
_RAISED = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹⁺⁻₀-₉])")
_ACCENTS = re.compile("[\u0300-\u036f]+")
SEPARATED_NAME = (
    r"\b(?=\w*[A-Za-z]{2})\w+(?:[._]\w{2,})+\b"  # dotted or snake-cased
    r"|\b[A-Z]{2,}-\d+\b"  # error codes, issue keys
)
_IDENTIFIER = re.compile(
    rf"{SEPARATED_NAME}"
    r"|\b[a-z]{2,}(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){3,}\b"  # camel-cased
)
_RELEASE = re.compile(r"\bv?\d+(?:\.\d+){2,}\b|\bv\d+(?:\.\d+)*\b")
_NUMBER = re.compile(r"[vV]?(\d+(?:\.\d+)+)")

# Words that carry no topic. Negations stay: "not supported" is what people look for.
_STOP = """
a an and are as at be been being but by can could d did do does doing don for from had has have he her him his how i if
in into is it its ll m me my of on or our re s shall she should so such t than that the their them then there these they
this those to too us ve was we were what when where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_STOP.split())


def analyze(text: str) -> list[str]:
    """Return the BM25 terms of a text, in order, repetitions kept. Lower-cased Snowball English stems without stop
    words. A compound name (camelCase, PascalCase with acronyms, snake_case, dotted.name, hyphen-name, path/like/this,
    --flag, ERR-4012) gives itself, each part that is a compound, and the stems of its words; a version number gives
    itself and its prefixes (`v1.2.3`: v1.2.3, 1.2.3, 1.2). Scripts written without spaces give characters and character
    pairs."""
    return list(chain.from_iterable(map(terms_of_word, words_of(text))))


def tokens_of(text: str) -> list[str]:
    """Return the runs between spaces (NFKC): `words_of` of one after the other gives the words of the text. No word has
    a space in it, and none depends on what lies beyond one."""
    return _plain(text).split()


def words_of(text: str) -> list[str]:
    """Return the words and names in a text, in order, as they are written (NFKC)."""
    return _WORD.findall(_plain(text))


def _plain(text: str) -> str:
    """Return a text with plain letters and digits (NFKC): CO₂ is CO2, but 10⁶ is `10^6` and never 106."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _RAISED.sub("^", text))


def identifiers(text: str) -> list[str]:
    """Return the identifiers in a text, each once: `max.poll.records`, `DB_POOL`, `ERR-4012`. Nobody writes their shape
    by accident; `GitHub` could be anything."""
    return list(dict.fromkeys(_IDENTIFIER.findall(text)))


def versions(text: str) -> list[str]:
    """Return the versions in a text, each once: `v3`, `3.9.1`; `0.5` could be any number."""
    return list(dict.fromkeys(_RELEASE.findall(text)))


def stems(words: Sequence[str]) -> list[str]:
    """Return the stems of words in lower case, one for each."""
    return [str(stem) for stem in _stemmer().stemWords(list(words))]


@lru_cache(maxsize=4096)
def analyze_passage(text: str) -> tuple[str, ...]:
    """Return the same of a text that many queries find, remembered: it takes some 50 µs of them otherwise."""
    return tuple(analyze(text))


@lru_cache(maxsize=1 << 17)
def terms_of_word(word: str) -> tuple[str, ...]:
    """Return the terms that `analyze` gives for one word of `words_of`; cached, because vocabularies are small."""
    name = word[:_LONGEST_NAME]
    if name.islower() and name.isalpha() and name.isascii():
        return _word(name)
    return tuple(term[:_LONGEST_TERM] for term in _of_name(folded(name)))


def folded(name: str) -> str:
    """Return a name without Latin, Greek and Cyrillic accents, typographic apostrophes straightened; case kept."""
    if name.isascii():
        return name
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", name))
    return unicodedata.normalize("NFC", bare).replace("’", "'")


def _of_name(name: str) -> Iterator[str]:
    if name.startswith("--"):
        yield name.lower()
        name = name[2:]
    if name.endswith(("+", "#")):  # C++, C#
        yield name.lower()
        name = name.rstrip("+#")
    stem, apostrophe, ending = name.rpartition("'")
    bare = stem if apostrophe and ending.lower() in STOP_WORDS else name
    yield from _compound(bare.replace("'", "-"), 0)


def _compound(name: str, level: int) -> Iterator[str]:
    """Yield a name and its parts, split at the coarsest separator first, so that inner names stay findable whole."""
    if version := _NUMBER.fullmatch(name):
        yield from _version(name.lower(), version.group(1))
        return
    for depth in range(level, len(_LEVELS)):
        parts = [part for part in _LEVELS[depth].split(name) if part]
        if parts and parts != [name]:
            if len(parts) > 1:
                yield name.lower()
            if len(parts) > 1 and "-" in name and depth == 2:
                yield from _word("".join(parts).lower())  # roll-back is rollback, KIP-500 is KIP500
            for part in parts:
                yield from _compound(part, depth + 1)
            return
    if name.strip("_"):
        yield from _leaf(name)


def _version(name: str, number: str) -> Iterator[str]:
    if name != number:
        yield name
    parts = number.split(".")
    for length in range(len(parts), 1, -1):
        yield ".".join(parts[:length])


def _leaf(name: str) -> Iterator[str]:
    """Yield a name without separators: its stem, and the words that case or digits show inside it."""
    if _UNSPACED.search(name):
        position = 0
        for run in _UNSPACED.finditer(name):
            if run.start() > position:
                yield from _leaf(name[position : run.start()])
            yield from run.group()
            yield from (first + second for first, second in pairwise(run.group()))
            position = run.end()
        if position < len(name):
            yield from _leaf(name[position:])
        return
    if len(name) > 1 and name.isupper():
        yield _stem(name.lower())  # IT and US are no stop words
    else:
        yield from _word(name.lower())
    parts = _CAMEL.findall(name) if name.isascii() else []
    if len(parts) < 2:
        return
    digits = [part.isdigit() for part in parts]
    before, after = [False, *digits[:-1]], [*digits[1:], False]
    for part, joined in zip(
        parts, (own or left or right for own, left, right in zip(digits, before, after, strict=True)), strict=True
    ):
        if len(part) > 1 or not joined:
            yield from _word(part.lower())


def _word(word: str) -> tuple[str, ...]:
    return () if word in STOP_WORDS else (_stem(word),)


def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word)) or word


@cache
def _stemmer() -> Any:
    """Return one stemmer without its own cache: without state it can serve all threads."""
    import Stemmer

    return Stemmer.Stemmer("english", 0)
