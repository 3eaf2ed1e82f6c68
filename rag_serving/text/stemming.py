"""Stems in other languages than English, beside the terms that every text has. A word of a German page is indexed by
its English stem, as every word is, and by its German one if that differs. So a question of unknown language gets the
same results as before, and one in German matches `Anträge` by `Antrag`. Names, numbers and scripts without spaces have
no such stems. The algorithms are Snowball's (https://snowballstem.org); they read words with their accents, which are
folded after."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from rag_serving.text.analyzer import analyze, analyze_passage, folded, terms_of_word, words_of

_ENGLISH = """
the of to and is are was were what how who whom whose when where why which does do did can could may must should would
will i my we our you your for with from be been it its this that these those there have has had not if by at an or as
than into about after before between during per any a in on
"""
_GERMAN = """
der die das dem den des ein eine einen einem einer eines und oder aber ist sind war waren wird werden wurde hat haben
habe ich du er sie wir ihr mich mir uns mein meine meinen unser unsere was wer wen wem wie wo wann warum wieso weshalb
welche welcher welches welchen welchem kann können darf dürfen muss müssen soll sollte gibt es nicht kein keine im ins
am zum zur mit auf bei nach von vor für über unter zu aus um ab bis seit durch gegen ohne als wenn dass man viel
viele lange
"""
_FRENCH = """
le la les l un une des du de d au aux et ou mais est sont était ont a ai as avez avons je j tu il elle nous vous ils on
mon ma mes notre nos votre que qu qui quoi quel quelle quels quelles comment combien où quand pourquoi peut peux puis
pouvez doit dois faut ce cet cette ces c s se sa son ne n pas plus en dans par pour avec sans sur sous chez à t y fait
"""
_SPANISH = """
el la los las un una unos unas del de al y o pero es son está están era ha he han yo tú él nosotros mi mis nuestro que
qué quién quiénes cuál cuáles cómo cuánto cuántos cuánta cuántas dónde cuándo por para puedo puede se debe hay no con
sin en sobre desde hasta lo le les su sus me te nos como si más
"""
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in (("en", _ENGLISH), ("de", _GERMAN), ("fr", _FRENCH), ("es", _SPANISH))
}
_ABROAD = frozenset().union(*(words for language, words in FUNCTION_WORDS.items() if language != "en"))
_ONLY_ENGLISH = FUNCTION_WORDS["en"] - _ABROAD
_ONLY_ABROAD = _ABROAD - FUNCTION_WORDS["en"]
_WORD = re.compile(r"[^\W\d_]+")
_WHOLE = re.compile(r"(?<![\w./-])[^\W\d_]+(?![\w/]|[.-]\w)")  # no part of a name


def function_words(text: str, language: str) -> list[str]:
    """Return the words of a text that are function words of a language; none if its words are not listed."""
    return [word for word in _WORD.findall(text.lower()) if word in FUNCTION_WORDS.get(language, ())]


def is_plainly_english(text: str) -> bool:
    """Return whether a text has more function words that only English has than ones that it has not."""
    words = _WORD.findall(text.lower())
    english, abroad = (sum(word in known for word in words) for known in (_ONLY_ENGLISH, _ONLY_ABROAD))
    return english > abroad


def without_function_words(text: str, language: str) -> str:
    """Return a text without the function words of a foreign language; those of English are no terms anyway."""
    known = FUNCTION_WORDS.get(language)
    if language == "en" or not known:
        return text
    return _WHOLE.sub(lambda word: "" if word[0].lower() in known else word[0], text)


Analyze = Callable[[str], list[str]]

_LANGUAGES = """
ar arabic ca catalan da danish de german el greek es spanish et estonian eu basque fi finnish fr french ga irish
hi hindi hu hungarian hy armenian id indonesian it italian lt lithuanian ne nepali nl dutch no norwegian pt portuguese
ro romanian ru russian sr serbian sv swedish ta tamil tr turkish yi yiddish
"""
ALGORITHMS: Mapping[str, str] = dict(zip(_LANGUAGES.split()[::2], _LANGUAGES.split()[1::2], strict=True))
"""Snowball's name of the language by its ISO 639-1 code; English is the analyzer's own."""
_SHORTEST = 3  # characters of a word that is stemmed
_LETTERS = re.compile(r"[^\W\d_]+")


@cache
def analyzer_of(languages: tuple[str, ...] = ()) -> Analyze:
    """Return the analyzer of texts in these languages beside English; `analyze` itself if none is stemmed. `languages`:
    ISO 639-1 codes; those that are not in `ALGORITHMS` change nothing."""
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
    """Return a function of the terms of each word of `analyzer.words_of` of a passage: those of `terms_in`."""
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
