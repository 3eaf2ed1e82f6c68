"""Questions in a language other than the pages', or unknown to the embedding model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rag_serving.models.language_detector import ENGLISH, question_language
from rag_serving.text.stemming import is_plainly_english

FARTHER_ABROAD = 0.18
"""How much less similar a passage is to a question in another language, for a model that knows both: measured with
multilingual-e5-small on 48 German and French questions (0.35 beside 0.53 of English ones)."""
_LEAST_SHARE = 0.1  # of the passages
# Local names, those of Ollama, and those of the hub; what is not named here is taken to know many languages.
_ENGLISH_MODELS = re.compile(
    r"all-(?:minilm|mpnet|distilroberta)|multi-qa|msmarco|-en\b|[-_]en[-_.]|(?<!multilingual-)\b(?:gte|e5)-(?:small|base|large)\b"
    r"|nomic-embed-text(?!-v2)|mxbai-embed|snowflake-arctic-embed(?!2|-[lm]-v2)|text-embedding-ada",
    re.IGNORECASE,
)
_NAMES: Mapping[str, Mapping[str, str]] = {
    "en": {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian"},
    "de": {"en": "Englisch", "de": "Deutsch", "fr": "Französisch", "es": "Spanisch", "it": "Italienisch"},
    "fr": {"en": "anglais", "de": "allemand", "fr": "français", "es": "espagnol", "it": "italien"},
    "es": {"en": "inglés", "de": "alemán", "fr": "francés", "es": "español", "it": "italiano"},
    "it": {"en": "inglese", "de": "tedesco", "fr": "francese", "es": "spagnolo", "it": "italiano"},
}
_TOLD: Mapping[str, str] = {
    "en": "The pages are in {pages}, and the search model knows {model}: ask in one of these for a certain answer.",
    "de": "Die Seiten sind auf {pages}, und das Suchmodell kann {model}: so gefragt wird die Antwort sicherer.",
    "fr": "Les pages sont en {pages} et le modèle de recherche connaît l'{model} : posez-y la question.",
    "es": "Las páginas están en {pages} y el modelo de búsqueda sabe {model}: pregunte así.",
    "it": "Le pagine sono in {pages} e il modello di ricerca conosce l'{model}: chieda così.",
}


class SaidIn(NamedTuple):
    """The language of a question (`en` if uncertain), and those whose stems its words have beside English ones."""

    language: str
    stemmed: tuple[str, ...] = ()


IN_ENGLISH = SaidIn(ENGLISH)


def said_in(text: str, pages: Callable[[], Mapping[str, float]]) -> SaidIn:
    """Return the languages of a question; a few words of no certain language may be in any of the pages'."""
    language = question_language(text)
    if language != ENGLISH:
        return SaidIn(language, (language,))
    if is_plainly_english(text):
        return IN_ENGLISH
    return SaidIn(ENGLISH, tuple(sorted(each for each, share in pages().items() if share >= _LEAST_SHARE)))


def is_of_pages(language: str, pages: Callable[[], Mapping[str, float]]) -> bool:
    """Return whether pages are in the language of a question; English ones always may be, and are not looked for."""
    return language == ENGLISH or pages().get(language, 0.0) >= _LEAST_SHARE


def knows(model: str, language: str) -> bool:
    """Return whether an embedding model supports a language, by the model's name."""
    return language == ENGLISH or not _ENGLISH_MODELS.search(model)


def languages_told(language: str, pages: Mapping[str, float]) -> str:
    """Return which languages pages and model serve, of English and the question's, if that is one of five."""
    main = [each for each, share in pages.items() if share >= _LEAST_SHARE] or [ENGLISH]
    return " ".join(_told(each, main) for each in dict.fromkeys((language, ENGLISH)) if each in _TOLD)


def _told(language: str, pages: Sequence[str]) -> str:
    names = _NAMES[language]
    listed = ", ".join(names.get(each, each) for each in pages)
    return _TOLD[language].format(pages=listed, model=names[ENGLISH])
