"""A question as the keyword tier reads it: words without stop words, synonyms and misspellings replaced. A word that is
the whole title, label or heading of something its reader may see, or a configured concept, is a known term: it matches
itself alone. Every other word matches the words that are the same but for a plural. That is decided for each question
over what its reader may see, never when the index is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rag_serving.config.sections import Keyword
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.query.spelling import SHORTEST
from rag_serving.query.topics import ACTIONS, AFTER, DEFINED, POLITE, TOLD, WHERE_OR_WHO, Words
from rag_serving.text.keyword_words import inflections, words_in

LONGEST = 64  # words of a question that are looked up; the rest is not read
_LONGEST_TEXT = 8000  # characters of it

IsWord = Callable[[str], bool]

# Stop words, then further words without a meaning of their own.
_EMPTY = """
a an the is what how my do
i me you we us he she it they them this that these those here there one ones thing things stuff something anything
everything our your his her its their of to in on at for from with by about into and or but if so as are am was were be
been does did done can could may might must should would will shall have has had get got where when who whom which why
please
"""
_LEFT_OUT = frozenset(_EMPTY.split())
_BARE = {tuple(word for word in action if word not in _LEFT_OUT) for action in ACTIONS} - {()}
_ACTIONS = tuple(sorted(_BARE, key=len, reverse=True))
_FRAMES = tuple(sorted((*DEFINED, *TOLD, *POLITE, *WHERE_OR_WHO), key=len, reverse=True))


@dataclass(frozen=True)
class Token:
    """A word to look for, and the words that it matches."""

    word: str
    forms: frozenset[str]


@dataclass(frozen=True)
class KeywordQuestion:
    """A question as the keyword tier searches it."""

    tokens: tuple[Token, ...]  # each word once, in order
    phrase: tuple[Token, ...]  # the words that a title may contain in a row
    is_framed: bool  # the phrase is in a question frame (`what is home`, not `home`)
    corrections: Mapping[str, str]  # corrections by misspelt words
    rewritten: Mapping[str, str]  # replacements by words or phrases that have a synonym
    left_out: frozenset[str]  # words ignored in titles

    @cached_property
    def words(self) -> Words:
        return tuple(token.word for token in self.tokens)

    def shared(self, words: Iterable[str]) -> Words:
        """Return the tokens that some words have, in order."""
        held = frozenset(words)
        return tuple(token.word for token in self.tokens if not held.isdisjoint(token.forms))

    def text_of(self, text: str) -> str:
        """Return a text with misspellings and synonyms replaced."""
        replaced = {**self.corrections, **self.rewritten}
        if not replaced:
            return text
        keys = "|".join(re.escape(key).replace(r"\ ", r"\s") for key in sorted(replaced, key=len, reverse=True))
        known = re.compile(rf"\b(?:{keys})\b", re.IGNORECASE)
        return known.sub(lambda match: replaced.get(" ".join(match[0].lower().split()), match[0]), text)


class QuestionReader:
    """Reads questions by one configuration, over what one reader may see."""

    def __init__(self, settings: Keyword, keywords: ReadableKeywords, is_word: IsWord = lambda _: False) -> None:
        """`is_word` says which words are never misspelt, though no page has them."""
        self.settings, self.keywords, self._is_word = settings, keywords, is_word
        self._rules = _rules(tuple(settings.synonyms.items()), tuple(settings.concepts))

    def read(self, text: str) -> KeywordQuestion:
        """Return the parsed query of a text; any text can be parsed."""
        rules = self._rules
        said, rewritten = _rewritten(tuple(words_in(text[:_LONGEST_TEXT])[:LONGEST]), rules.phrases)
        bare, is_framed = _without_frame(said)
        kept, more = _rewritten(self._kept(bare), rules.words)
        self._expect(kept)
        corrections = {word: near for word in dict.fromkeys(kept) if (near := self._correction(word))}
        if corrections:
            mended = tuple(part for word in kept for part in words_in(corrections.get(word, word)))
            kept, again = _rewritten(self._kept(mended), rules.words)
            self._expect(kept)
            more |= again
        phrase, was_action = self._phrase(kept)
        tokens = {word: Token(word, self._forms(word)) for word in (*kept, *phrase)}
        return KeywordQuestion(
            tokens=tuple(tokens.values()),
            phrase=tuple(tokens[word] for word in phrase),
            is_framed=is_framed or was_action,
            corrections=corrections,
            rewritten=rewritten | more,
            left_out=_LEFT_OUT,
        )

    def _expect(self, words: Words) -> None:
        self.keywords.expect({form for word in words for form in (word, *inflections(word))})

    def _kept(self, words: Words) -> Words:
        return tuple(word for word in words if word not in _LEFT_OUT)

    def _phrase(self, words: Words) -> tuple[Words, bool]:
        """Return the words that a title may contain: all, or those after a verb if only these are in a title."""
        rest = _behind(words, _ACTIONS)
        if rest == words or not rest or self._is_named(words) or not self._is_named(rest):
            return words, False
        return rest, True

    def _is_named(self, words: Words) -> bool:
        pages, _ = self.keywords.pages_named([self._forms(word) for word in words], _LEFT_OUT)
        return bool(len(pages))

    def _forms(self, word: str) -> frozenset[str]:
        is_known = word in self._rules.concepts or self.keywords.is_term(word)
        return frozenset({word}) if is_known else inflections(word)

    def _correction(self, word: str) -> str | None:
        if len(word) < SHORTEST or word in self._rules.concepts or self.keywords.has_word(inflections(word)):
            return None
        return None if self._is_word(word) else self.keywords.correction(word)


@dataclass(frozen=True)
class _QuestionRules:
    """A configuration as words."""

    phrases: Mapping[Words, Words]
    words: Mapping[Words, Words]
    concepts: frozenset[str]


@lru_cache(maxsize=64)
def _rules(synonyms: tuple[tuple[str, str], ...], concepts: Words) -> _QuestionRules:
    pairs = {tuple(words_in(said)): tuple(words_in(meant)) for said, meant in synonyms}
    pairs.pop((), None)
    return _QuestionRules(
        phrases={said: meant for said, meant in pairs.items() if len(said) > 1},
        words={said: meant for said, meant in pairs.items() if len(said) == 1},
        concepts=frozenset(word for concept in concepts for word in words_in(concept)),
    )


def _rewritten(words: Words, synonyms: Mapping[Words, Words]) -> tuple[Words, dict[str, str]]:
    if not synonyms:
        return words, {}
    found: list[str] = []
    replaced: dict[str, str] = {}
    at, longest = 0, max(map(len, synonyms))
    while at < len(words):
        size = next((size for size in range(longest, 0, -1) if words[at : at + size] in synonyms), 0)
        said = words[at : at + size]
        if size:
            replaced[" ".join(said)] = " ".join(synonyms[said])
        found += synonyms[said] if size else words[at : at + 1]
        at += size or 1
    return tuple(found), replaced


def _without_frame(words: Words) -> tuple[Words, bool]:
    rest = words
    while (behind := _behind(rest, _FRAMES)) != rest:
        rest = behind
    is_framed = rest != words
    if is_framed and len(rest) > 1 and rest[-1:] in AFTER:
        rest = rest[:-1]
    return (rest, True) if rest and is_framed else (words, False)


def _behind(words: Words, phrases: Sequence[Words]) -> Words:
    """Return the words after the first phrase that they begin with; all of them without one."""
    for phrase in phrases:
        if len(phrase) < len(words) and words[: len(phrase)] == phrase:
            return words[len(phrase) :]
    return words
