"""Function words, in the most frequent languages of questions.

Belongs here: the words, recognizing plain English by them. Does not belong here: detecting all other languages
(`models.language_detector`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

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
FUNCTION_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        language: frozenset(words.split())
        for language, words in (("en", _ENGLISH), ("de", _GERMAN), ("fr", _FRENCH), ("es", _SPANISH))
    }
)
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
