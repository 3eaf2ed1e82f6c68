"""The topic of a question that only names it: `rollback`, `explain home`, `what are widgets?`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rag_serving.text.analyzer import analyze, words_of
from rag_serving.text.question_types import kind_of, parts_of
from rag_serving.text.stemming import FUNCTION_WORDS

_LONGEST_OF_TWO = 300  # characters of a question that may ask two things
_MOST_WORDS_BESIDE = 5  # of a thing that is named beside another
_SIGNS = " \t\r\n.,;:!?\"“”„'‘’()[]"
_JOINED = re.compile(r" (?:\+|&|and also|and|as well as|plus) ", re.IGNORECASE)
_VERSUS = re.compile(r" (?:vs\.?|versus) ", re.IGNORECASE)
_COMPARED = re.compile(r"(?:(?:what(?:'s|’s|s| is| are) )?(?:the )?differences? between|compare) ", re.IGNORECASE)
_WITH = re.compile(r" (?:and|with|to|from) ", re.IGNORECASE)
_FRAME = re.compile(
    r"(?:please )?(?:explain|describe|summari[sz]e|tell (?:me|us)(?: more)? about"
    r"|what(?:'s|’s| is| are)|where (?:is|are|do (?:i|we) find)|how (?:do|can|should|to)(?: (?:i|we|you))?(?: to)?) ",
    re.IGNORECASE,
)
_OWN_ARTICLE = re.compile(r"(?:the|a|an|my|our|your) ", re.IGNORECASE)
_LEANING_WORDS = """
it its they them their this that these those one ones he she him her his there both either neither
"""
_LEANING = frozenset(_LEANING_WORDS.split())
_OPENING_CLAUSES = "who whom when where why which if because while until unless after before whether"
_NO_NAME = frozenset(_OPENING_CLAUSES.split())


def intents_of(question: str) -> tuple[str, str] | None:
    """Return the two topics of a question, each as a question of its own; None if there may be only one. A part that
    depends on the other ("and how do I delete it?") makes one question of both, and so do three topics."""
    if len(question) > _LONGEST_OF_TWO or "\n" in question.strip():
        return None
    said = " ".join(question.strip(_SIGNS).split())
    for one, other in _candidates(said):
        if _stands(one) and _stands(other) and set(analyze(one)) != set(analyze(other)):
            return one, other
    return None


def _candidates(said: str) -> Iterator[tuple[str, str]]:
    compared = _COMPARED.match(said)
    pair = _WITH.split(said[compared.end() :]) if compared else _VERSUS.split(said)
    if compared or len(pair) == 2:
        if len(pair) == 2 and all(map(_is_short, pair)):
            yield f"what is {_bare(pair[0])}", f"what is {_bare(pair[1])}"
        return
    asked = parts_of(said)
    if len(asked) == 2 and all(kind_of(part) not in ("thing", "statement") or topic_of(part) for part in asked):
        yield asked[0], asked[1]
        return
    if not asked:
        yield from _named(said)


def _named(said: str) -> Iterator[tuple[str, str]]:
    parts = _JOINED.split(said, maxsplit=2)
    if len(parts) != 2 or "," in said:
        return
    frame = found[0] if (found := _FRAME.match(parts[0])) else ""
    one, other = parts[0][len(frame) :].strip(_SIGNS), parts[1].strip(_SIGNS)
    own = _FRAME.match(other)
    if not (_is_short(one) and _is_short(other[own.end() :] if own else other)):
        return
    yield f"{frame}{one}", other if own else f"{frame}{other}"


def _is_short(text: str) -> bool:
    words = [word.lower() for word in words_of(text)]
    return 0 < len(words) <= _MOST_WORDS_BESIDE and _NO_NAME.isdisjoint(words)


def _bare(text: str) -> str:
    found = _OWN_ARTICLE.match(text)
    return text[found.end() :] if found and found.end() < len(text) else text


def _stands(part: str) -> bool:
    """Return whether a part is a question of its own: it names something and has no pronoun to resolve."""
    words = {word.lower() for word in words_of(part)}
    return bool(words & _LEANING == set() and set(analyze(part)) - NAMING_NOTHING)


Words = tuple[str, ...]


def _phrases(text: str) -> tuple[Words, ...]:
    phrases = {tuple(phrase.split()) for line in text.splitlines() for phrase in line.split("|") if phrase.strip()}
    return tuple(sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))


DEFINED: Final = _phrases("""
what is|what are|what was|what were|what does|what s|whats|define|the meaning of|meaning of|the definition of
definition of
""")
"""What asks what something is."""
TOLD: Final = _phrases("""
explain|describe|summarize|summarise|show me|what do you know about|about|info on|info about|information on
information about|tell me about|tell us about|tell me more about|tell us more about|tell me something about
tell us something about|tell me everything about|tell us everything about|tell me all about|tell us all about
give me an overview of|give me a overview of|give me overview of|give me a summary of|give me an summary of
give me summary of|an overview of|a overview of|overview of|a summary of|an summary of|summary of
""")
"""What asks to be told of something."""
POLITE: Final = _phrases("please|can you|could you|would you|do you know")  # what may stand before a frame
WHERE_OR_WHO: Final = _phrases("""
where is|where are|where do i find|who is|who are|i want to know about|help with|help me with
""")
"""What asks for a thing by more than its name; a page of that name is still what is meant."""
ACTIONS: Final = _phrases("""
open|find|go to|get to|use|see|view|show|where can i find|how do i find|how do i open|how do i use|how can i find|how to
how do i get to|how does|how do
""")
"""What is done with a thing: left out only where the rest is one that a title has."""
AFTER: Final = _phrases("mean|means|do|work|for|about")  # what may stand behind the thing that is asked for

Frame = Literal["bare", "defined", "told"]
"""How a topic is asked for: by its name alone; by what it is (`what is home`); to be told of (`explain home`)."""

MOST_WORDS = 4  # words of a topic that is asked for by its name alone: more of them say something of their own
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
    """The topic of a question."""

    text: str  # the name as it was typed, without the question's frame
    frame: Frame
    terms: frozenset[str]  # its analyzed terms, each once

    @property
    def is_one_word(self) -> bool:
        return len(words_of(self.text)) == 1


def topic_of(question: str) -> Topic | None:
    """Return the topic of a question that only names it; None if it asks something about it, or names nothing."""
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
    """Return whether words may be a bare name: few of them, and none that forms a sentence."""
    return len(words) <= MOST_WORDS and not any(word.lower() in _SENTENCE for word in words)
