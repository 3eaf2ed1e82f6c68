"""Stems in other languages than English, beside the terms that every text has.

Belongs here: the supported languages, a text's terms with the stems of its language. Does not belong here: the analysis
into terms (`analyzer`), detecting languages (`models.language_detector`).

A word of a German page is indexed by its English stem, as every word is, and by its German one if that differs. So a
question of unknown language gets the same results as before, and one in German matches `Anträge` by `Antrag`. Names,
numbers and scripts without spaces have no such stems.

The algorithms are Snowball's (https://snowballstem.org); they read words with their accents, which are folded after.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any

from rag_serving.text.analyzer import analyze, analyze_passage, folded, terms_of_word, words_of

Analyze = Callable[[str], list[str]]

ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {
        "ar": "arabic",
        "ca": "catalan",
        "da": "danish",
        "de": "german",
        "el": "greek",
        "es": "spanish",
        "et": "estonian",
        "eu": "basque",
        "fi": "finnish",
        "fr": "french",
        "ga": "irish",
        "hi": "hindi",
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "it": "italian",
        "lt": "lithuanian",
        "ne": "nepali",
        "nl": "dutch",
        "no": "norwegian",
        "pt": "portuguese",
        "ro": "romanian",
        "ru": "russian",
        "sr": "serbian",
        "sv": "swedish",
        "ta": "tamil",
        "tr": "turkish",
        "yi": "yiddish",
    }
)
"""Snowball's name of the language by its ISO 639-1 code; English is the analyzer's own."""
_SHORTEST = 3  # characters of a word that is stemmed
_LETTERS = re.compile(r"[^\W\d_]+")


@cache
def analyzer_of(languages: tuple[str, ...] = ()) -> Analyze:
    """Return the analyzer of texts in these languages beside English; `analyze` itself if none is stemmed.

    Args:
        languages: ISO 639-1 codes; those that are not in `ALGORITHMS` change nothing.
    """
    stemmed = tuple(language for language in dict.fromkeys(languages) if language in ALGORITHMS)
    return _Stemming(stemmed) if stemmed else analyze


@cache
def passage_analyzer(languages: tuple[str, ...]) -> Callable[[str], Sequence[str]]:
    """Return the same for texts that many queries return: results are cached."""
    analyzer = analyzer_of(languages)
    return analyze_passage if analyzer is analyze else lru_cache(maxsize=1024)(analyzer)


def terms_in(text: str, language: str | None) -> list[str]:
    """Return the index terms of a passage; `language`: its own, None if unknown."""
    return analyzer_of((language,) if language else ())(text)


def word_terms(language: str | None) -> Callable[[str], tuple[str, ...]]:
    """Return a function of the terms of each word that `analyzer.words_of` returns for a passage: together, those of
    `terms_in`."""
    analyzer = analyzer_of((language,) if language else ())
    return analyzer.of_word if isinstance(analyzer, _Stemming) else terms_of_word


class _Stemming:
    """Terms with the stems of some languages. Safe to use from several threads."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        self._languages = languages
        self._stems = lru_cache(maxsize=1 << 16)(self._stems_of)

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text: those of `analyze`, after each word the stems that differ from them."""
        return list(chain.from_iterable(map(self.of_word, words_of(text))))

    def of_word(self, word: str) -> tuple[str, ...]:
        """Return the terms of one word of a text."""
        own = analyze(word)
        return (*own, *(stem for stem in self._stems(word) if stem not in own))

    def _stems_of(self, word: str) -> tuple[str, ...]:
        parts = [part.lower() for part in _LETTERS.findall(word) if len(part) >= _SHORTEST]
        return tuple(dict.fromkeys(self._stemmed(parts)))

    def _stemmed(self, words: Sequence[str]) -> Iterator[str]:
        for language in self._languages:
            for stem in _stemmer(language).stemWords([unicodedata.normalize("NFC", word) for word in words]):
                yield folded(str(stem))


@cache
def _stemmer(language: str) -> Any:
    """Return one stemmer without its own cache: without state it can serve all threads."""
    import Stemmer

    return Stemmer.Stemmer(ALGORITHMS[language], 0)
