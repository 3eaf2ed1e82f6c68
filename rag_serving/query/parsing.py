"""A query before the search: terms with weights, phrases, identifiers, filters, scope."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from rag_serving.query.languages import IN_ENGLISH, SaidIn
from rag_serving.query.spelling import Names
from rag_serving.records.queries import Filters, Query
from rag_serving.text.analyzer import analyze, identifiers, versions
from rag_serving.text.normalization import caseless
from rag_serving.text.small_talk import Remark, is_noise, remark_of, without_greeting
from rag_serving.text.stemming import analyzer_of, without_function_words

# Code is skipped: a question about `label:foo` wants no filter. A bare value ends where a sentence could.
_SIGNS = re.compile(
    r"(?P<code>`[^`\n]*`)"
    r"|(?<![\w:/.])(?P<key>space|label|title):(?:\"(?P<straight>[^\"\n]+)\"|“(?P<curly>[^“”\n]+)”"
    r"|(?P<bare>[^\s\"“”`,;?!)]+))"
    r"|(?<!\w)\"(?=\S)(?P<phrase>[^\"\n]{2,200})(?<=\S)\"(?!\w)"
    r"|“(?P<typeset>[^“”\n]{2,200})”",
    re.IGNORECASE,
)
_BEGINNINGS = frozenset('`:"“')  # most queries have none of them


@dataclass(frozen=True)
class Signs:
    """A query without its operators and quotation marks, and what they said."""

    text: str
    filters: Filters
    phrases: tuple[str, ...]


def read_signs(query: str) -> Signs:
    """Return the operators and quoted phrases of any text; the words of a phrase stay in the text. Operators alone
    leave their values as words, so that there is something to rank by."""
    if _BEGINNINGS.isdisjoint(query):
        return Signs(query, Filters(), ())
    given: dict[str, list[str]] = {"space": [], "label": [], "title": []}
    phrases: list[str] = []
    rest: list[str] = []
    position = 0
    for sign in _SIGNS.finditer(query):
        rest.append(query[position : sign.start()])
        position = sign.end()
        if key := sign["key"]:
            given[key.lower()].append((sign["straight"] or sign["curly"] or (sign["bare"] or "").rstrip(".:")).strip())
            rest.append(" ")
        elif phrase := (sign["phrase"] or sign["typeset"] or "").strip():
            phrases.append(" ".join(phrase.split()))
            rest.append(phrase)
        else:
            rest.append(sign[0])
    rest.append(query[position:])
    filters = Filters(tuple(given["space"]), tuple(given["label"]), tuple(" ".join(given["title"]).split()))
    text = " ".join("".join(rest).split()) if filters else "".join(rest)
    return Signs(text or " ".join(_values(filters)), filters, tuple(dict.fromkeys(filter(None, phrases))))


def _values(filters: Filters) -> Iterator[str]:
    for values in vars(filters).values():
        yield from values


def with_synonyms(text: str, synonyms: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a text with each word or phrase that has a synonym replaced, the longest first, and the replacements;
    "quoted" words are left alone."""
    meant = {" ".join(said.lower().split()): other for said, other in synonyms.items() if said.strip()}
    if not meant:
        return text, {}
    replaced: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        if not match["said"]:
            return match[0]
        replaced[match[0]] = meant[" ".join(match[0].lower().split())]
        return replaced[match[0]]

    return _pattern(tuple(meant)).sub(other, text), replaced


@lru_cache(maxsize=64)
def _pattern(said: tuple[str, ...]) -> re.Pattern[str]:
    phrases = (r"\s".join(map(re.escape, phrase.split())) for phrase in sorted(said, key=len, reverse=True))
    return re.compile(rf'"[^"]*"|(?<!\w)(?P<said>{"|".join(phrases)})(?!\w)', re.IGNORECASE)


_IDENTIFIER_WEIGHT, _PART_WEIGHT, _CORRECTED_WEIGHT = 2.0, 0.5, 0.8

# Words of prose: neither parts of names, paths or numbers, nor acronyms.
_WORD = re.compile(r"(?<![\w.\-/@:\\$&'’#])[A-Za-z]?[a-z]{3,}(?![\w\-/@\\$&'’#+]|[.:]\w)")

IsWord = Callable[[str], bool]


class Corpus(Protocol):
    """The asker's view of the passages' vocabulary."""

    @property
    def names(self) -> Names: ...

    def frequency(self, term: str) -> int:
        """Return the number of passages with an analyzed term."""
        ...

    def correction(self, word: str) -> str | None:
        """Return the word of the passages that an unknown word in lower case was meant to be."""
        ...


def read_query(
    text: str,
    corpus: Corpus | None = None,
    spelling: bool = True,
    is_word: IsWord | None = None,
    said_in: SaidIn = IN_ENGLISH,
) -> Query:
    """Return the query in a question or in bare keywords. Any text is a query. Without a corpus nothing is known to
    exist: no spelling is corrected, no scope applied, no identifier weighted. `is_word` recognizes words missing from
    the passages: with it, random keystrokes are a remark. Function words of the text's language are no terms."""
    signs = read_signs(text)
    remark = _remark(signs.text, corpus, is_word)
    asked = without_greeting(signs.text)
    filters, scope, names, corrections = signs.filters, NamedScope(asked), list[str](), dict[str, str]()
    if corpus:
        filters = _as_written(filters, corpus.names) if filters else filters
        scope = (
            read_scope(asked, corpus.names)
            if any(pattern.search(asked) for pattern in (_SPACE, _LABEL, _PLACE))
            else scope
        )
        corrections = _corrections(scope.text, signs.phrases, corpus) if spelling and not remark else corrections
        names = [*identifiers(signs.text), *versions(signs.text)]
        names = [name for name in names if (terms := analyze(name)) and corpus.frequency(terms[0])]
    corrected = _WORD.sub(lambda word: corrections.get(word[0], word[0]), scope.text)
    query = Query(
        original=text,
        text=corrected,
        terms=_terms(without_function_words(corrected, said_in.language), names, corrections, said_in.stemmed),
        phrases=signs.phrases,
        identifiers=tuple(names),
        filters=filters,
        scope=scope.filters,
        page=scope.page,
        corrections=corrections,
        language=said_in.language,
        stemmed=said_in.stemmed,
        remark=remark,
    )
    return query.noting(*_notes(query))


def _remark(text: str, corpus: Corpus | None, is_word: IsWord | None) -> Remark | None:
    remark = remark_of(text)
    if remark or corpus is None or is_word is None:
        return remark

    def is_known(word: str) -> bool:
        return is_word(word) or any(map(corpus.frequency, analyze(word)))

    return "noise" if is_noise(text, is_known) else None


def _as_written(filters: Filters, names: Names) -> Filters:
    """Spaces and labels in the case that pages write them in, if there are such."""
    return Filters(
        space=tuple(names.spaces.get(space.casefold(), space) for space in filters.space),
        labels=tuple(names.labels.get(label.casefold(), label) for label in filters.labels),
        title=filters.title,
    )


def _corrections(text: str, phrases: Sequence[str], corpus: Corpus) -> dict[str, str]:
    """Return corrections of words that no passage contains; quoted words are left alone."""
    quoted = " ".join(phrases)
    words = [word for word in dict.fromkeys(_WORD.findall(text)) if word not in quoted]
    unknown = [word for word in words if (terms := analyze(word)) and not any(map(corpus.frequency, terms))]
    corrections = {word: corpus.correction(word.lower()) for word in unknown}
    return {word: correction for word, correction in corrections.items() if correction}


def _terms(
    text: str, names: Sequence[str], corrections: Mapping[str, str], stemmed: tuple[str, ...]
) -> dict[str, float]:
    """Weights by term: how often it is said; a name as a whole more, its parts and corrections less."""
    weights = {term: float(count) for term, count in Counter(analyzer_of(stemmed)(text)).items()}
    wholes = {analyze(name)[0] for name in names}
    parts = {part for name in names for part in analyze(name)} - wholes
    guessed = {term for word in corrections.values() for term in analyze(word)}
    for terms, factor in ((wholes, _IDENTIFIER_WEIGHT), (parts, _PART_WEIGHT), (guessed, _CORRECTED_WEIGHT)):
        weights.update({term: weights[term] * factor for term in sorted(terms & weights.keys())})
    return weights


def _notes(query: Query) -> Iterator[str]:
    for how, filters in (("only", query.filters), ("first", query.scope)):
        yield from (f"{how} pages of the space {space}" for space in filters.space)
        yield from (f"{how} pages labelled {label}" for label in filters.labels)
        if filters.title:
            yield f"{how} pages whose title has {', '.join(filters.title)}"
    if query.page:
        yield f"the page “{query.page}” before others"
    yield from (f"passages with the words “{phrase}” before others" for phrase in query.phrases)
    yield from (f"{name} is looked for as a whole" for name in query.identifiers)
    yield from (f"read '{word}' as '{correction}'" for word, correction in query.corrections.items())


_LONGEST_TITLE = 10  # words
_NAME = r"[\"“'‘]?(?P<name>[\w][\w.~-]{0,100})[\"”'’]?"
_SPACE = re.compile(
    rf"(?<!\s)\s*\b(?:in|from|within|of|on)\s+(?:the\s+)?"
    rf"(?:space\s+{_NAME}|(?P<before>[\w][\w.~-]{{0,100}})\s+space\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    rf"(?<!\s)\s*\b(?:labell?ed|tagged|with\s+(?:the\s+)?label)\s+(?:as\s+|with\s+)?{_NAME}", re.IGNORECASE
)
_PLACE = re.compile(
    r"\b(?:in|on|from|per|under|according\s+to)\s+(?:(?:the|our|a)\s+)?(?:page\s+)?(?=(?P<rest>\S.{0,400}))", re.I
)
_WORDS = re.compile(r"\S+")
_BESIDE = " .,;:?!\"“”'‘’()[]"


@dataclass(frozen=True)
class NamedScope:
    """A text without the words that named a space or label, and what was named."""

    text: str
    filters: Filters = field(default_factory=Filters)
    page: str | None = None  # a title; its words stay in the text


def read_scope(text: str, names: Names) -> NamedScope:
    """Return the space, label and page that a text names in words, where these names exist."""
    left, spaces = _named(text, _SPACE, names.spaces)
    left, labels = _named(left, _LABEL, names.labels)
    left = left.strip()
    named = [
        names.titles[one]
        for place in _PLACE.finditer(left)
        for one in _beginnings(place["rest"])
        if one in names.titles
    ]
    return NamedScope(left or text, Filters(space=spaces, labels=labels), max(named, key=len, default=None))


def _named(text: str, pattern: re.Pattern[str], names: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    for match in pattern.finditer(text):
        groups = match.groupdict()
        written = (groups["name"] or groups.get("before") or "").rstrip(".-")
        if name := names.get(caseless(written)):
            return text[: match.start()] + text[match.end() :], (name,)
    return text, ()


def _beginnings(text: str) -> Iterator[str]:
    """Yield the first words, the first two, …, without signs around them."""
    for word in list(_WORDS.finditer(text))[:_LONGEST_TITLE]:
        yield caseless(text[: word.end()].strip(_BESIDE))
