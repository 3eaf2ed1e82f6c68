"""What a question only names, without saying what about it is asked: `rollback`, `explain home`, `what are widgets?`.

Belongs here: reading the topic between question frames. Does not belong here: the frames (`frames`), which page is
about a topic (`retrieval.clarity`), questions that ask for something of their own (they are answered as they are).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from rag_serving.query.frames import DEFINED, POLITE, TOLD, Words
from rag_serving.text.analyzer import analyze, words_of
from rag_serving.text.function_words import FUNCTION_WORDS

Frame = Literal["bare", "defined", "told"]
"""How a topic is asked for: by its name alone; by what it is (`what is home`); to be told of (`explain home`)."""

MOST_WORDS = 4
"""Words of a topic that is asked for by its name alone: more of them say something of their own."""
_LONGEST = 200  # characters of a question that may only name something

# Words that name nothing.
_NOTHING = """
it this that these those thing things something anything everything stuff one ones them they here there i me us you he
she way problem issue question help info information detail details more
"""
NAMING_NOTHING = frozenset(_NOTHING.split())


def _any_of(phrases: Sequence[Words]) -> str:
    return "|".join(re.sub(r" s\b", "['’]s", " ".join(phrase)) for phrase in phrases)


_DEFINED = re.compile(rf"(?:(?:so|and|please|ok|okay)[, ]{{1,2}})?(?:{_any_of(DEFINED)}) (?P<topic>.+)", re.IGNORECASE)
_TOLD = re.compile(rf"(?:(?:{_any_of(POLITE)}) ){{0,3}}(?:{_any_of(TOLD)}) (?P<topic>.+)", re.IGNORECASE)
_ASKING = re.compile(
    r"(?:how|why|when|who|whom|whose|where|which|what|is|are|was|were|do|does|did|can|could|may|must|should|will|would|has"
    r"|have|if|wie|was|wer|wo|wann|warum|comment|que|qui|quand|pourquoi|est-ce)\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|a|an|my|our|your|this|that) ", re.IGNORECASE)
# Words that make a sentence of those beside them.
_NO_SENTENCE = frozenset(["of", "to", "for", "in", "a", "the", "and", "on", "my", "our", "with"])
_SENTENCE = (FUNCTION_WORDS["en"] - _NO_SENTENCE) | {"not", "no"}
_AROUND = " \t\r\n.,;:!?\"“”„'‘’()[]"
_MEAN = re.compile(r" (?:mean|stand for|do)\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Topic:
    """What a question names.

    Attributes:
        text: the name as it was typed, without what stands around it.
        terms: its analyzed terms, each once.
    """

    text: str
    frame: Frame
    terms: frozenset[str]

    @property
    def is_one_word(self) -> bool:
        return len(words_of(self.text)) == 1


def topic_of(question: str) -> Topic | None:
    """Return what a question only names; None where it asks for something about it, or names nothing."""
    if len(question) > _LONGEST or "\n" in question.strip():
        return None
    said = " ".join(question.strip(_AROUND).split())
    frame: Frame = "bare"
    if found := _DEFINED.fullmatch(said):
        frame, said = "defined", _MEAN.sub("", found["topic"])
    elif found := _TOLD.fullmatch(said):
        frame, said = "told", found["topic"]
    if frame == "bare" and _ASKING.match(said):
        return None
    text = _without_article(said.strip(_AROUND))
    terms = frozenset(analyze(text))
    if not terms or _names_nothing(text):
        return None
    if frame == "bare" and not _is_name(words_of(text)):
        return None
    return Topic(text, frame, terms)


def names_nothing(question: str) -> bool:
    """Return whether all that a question names is `the thing`, `it` or the like: no page could be meant."""
    said = question.strip(_AROUND) if len(question) <= _LONGEST else ""
    return _names_nothing(said) and not _said(said).isdisjoint(NAMING_NOTHING)


def _without_article(text: str) -> str:
    found = _ARTICLE.match(text)
    return text[found.end() :] if found and found.end() < len(text) else text


def _names_nothing(text: str) -> bool:
    return _said(text) <= NAMING_NOTHING | FUNCTION_WORDS["en"]


def _said(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in words_of(text))


def _is_name(words: Collection[str]) -> bool:
    """Return whether words can be a name that is asked for alone: few of them, and none that makes a sentence."""
    return len(words) <= MOST_WORDS and not any(word.lower() in _SENTENCE for word in words)
