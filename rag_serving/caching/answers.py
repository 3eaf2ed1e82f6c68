"""One tenant's answers in the memory of this process: reused for equivalent questions, and for when search fails.

An answer is reused only in the scope that it was made in: the same generation, the same reader classes of it, the same
settings and filters and, unless answers are shared, the same user. Of a question only digests and its vector are
stored.

For when search fails, an answer is shown again to the same question only, to callers who had the same reader classes in
its generation: nobody gets the result of a caller with more access, or less. While that generation is published, this
suffices. Of another generation's answer every page that was locked for it must still be open to the reader as a whole,
by what is published now; if that is unknown, it is not shown.

Nothing is written to a disk, and nothing outlives the process.

Vectors do not distinguish 2.8 from 3.8, billing from payments or enable from disable: such pairs are as close as honest
rewordings (`python -m evals.bench.semantic_cache`). So a question's signature keeps, in order, whatever can change an
answer: figures with their units, names and codes, negations and opposites, question words, tense, prepositions, every
other word. Ignored is what cannot: greetings and polite openings, case, punctuation, articles, contractions, regular
plurals, some pairs of words that are one, "the Y's X" for "the X of the Y". A doubt is a miss, which costs a search,
and never a wrong answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_serving.access.principals import Principal, satisfied_classes
from rag_serving.config.phases import Degradation
from rag_serving.config.sections import Cache
from rag_serving.query.parsing import read_signs
from rag_serving.records.answers import Answer
from rag_serving.records.decisions import Clarification
from rag_serving.records.flags import CACHED, CACHED_OLDER, FINDINGS
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import STOP_WORDS, stems
from rag_serving.text.normalization import folded
from rag_serving.text.polarity_words import SPELLED
from rag_serving.text.question_types import is_claim, kind_of
from rag_serving.text.small_talk import without_greeting

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

BYTES_PER_CHARACTER = 4


class BoundedEntries(Generic[Key, Value]):
    """Values by key, each with the bytes that it counts for; those that were not used for longest go first. Safe to use
    from several threads."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.RLock()
        self.size = 0  # bytes, as they are counted

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> list[tuple[Key, Value]]:
        """Return every key with its value."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def get(self, key: Key) -> Value | None:
        """Return a value, which counts as used now; None if there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Key, value: Value, size: int) -> bool:
        """Keep a value in place of the one of the same key; return False if it is larger than all may be."""
        if size > self._most_bytes or not self._most:
            return False
        with self._lock:
            self.drop(key)
            self._entries[key] = value, size
            self.size += size
            while len(self._entries) > self._most or self.size > self._most_bytes:
                self.drop(next(iter(self._entries)))
        return True

    def drop(self, key: Key) -> None:
        """Forget a value, if there is one."""
        with self._lock:
            if entry := self._entries.pop(key, None):
                self.size -= entry[1]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._entries.clear()
            self.size = 0


def bare(answer: Answer) -> Answer:
    """Return an answer without its one-time parts: timings, explanations, notes."""
    return replace(answer, passages=None, notes=None, why=None, rejected=(), clarification=None, timings_ms={})


def size_of(answer: Answer) -> int:
    """Return the bytes that an answer is counted with: four for each character of its JSON."""
    return BYTES_PER_CHARACTER * len(json.dumps(answer.payload(), default=str))


Vector = NDArray[np.float32]
VectorOf = Callable[[], Vector | None]
"""Gives the vector of the question that is asked, of length 1; None where the model does not answer."""


@dataclass(frozen=True)
class AnswerScope:
    """All that an answer depends on beside its question."""

    tenant: str
    user: str | None  # who may have it again; None: everyone with the same reader classes
    generation: str
    classes: frozenset[str]  # the reader classes of the generation that the asker satisfies
    settings: Mapping[str, Any]  # switches, phase and filters, as JSON has them

    @property
    def digest(self) -> bytes:
        said = [self.tenant, self.user, self.generation, sorted(self.classes), self.settings]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class CachedAnswer:
    """An answer with what it was made of: its receipt as it was made, and the passages without their text."""

    answer: Answer
    receipt: Mapping[str, Any]
    lock: Lock


@dataclass(frozen=True)
class _KeptAnswer:
    cached: CachedAnswer
    text: bytes
    vector: Vector | None
    at: float


class AnswerCache:
    """The answers of one tenant that are given again. Safe to use from several threads."""

    def __init__(self, settings: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self.entries: BoundedEntries[bytes, _KeptAnswer] = BoundedEntries(settings.max_answers, settings.max_bytes)

    def put(self, scope: AnswerScope, question: str, cached: CachedAnswer, vector_of: VectorOf) -> bool:
        """Store an answer if it is confident and nothing was degraded; return whether it was."""
        answer = cached.answer
        if answer.outcome != "told" or not FINDINGS.issuperset(answer.flags):
            return False
        kept = CachedAnswer(bare(answer), cached.receipt, cached.lock)
        vector = vector_of()
        size = size_of(kept.answer) + BYTES_PER_CHARACTER * len(json.dumps(kept.receipt))
        size += 0 if vector is None else vector.nbytes
        entry = _KeptAnswer(kept, _exact(question), vector, self._clock())
        return self.entries.put(_key(scope, question), entry, size)

    def get(self, scope: AnswerScope, question: str, vector_of: VectorOf) -> CachedAnswer | None:
        """Return the stored answer of an equivalent question in the same scope."""
        key = _key(scope, question)
        entry = self.entries.get(key)
        if entry and self._clock() - entry.at > self._settings.max_age_s:
            self.entries.drop(key)
            return None
        if entry is None or not (entry.text == _exact(question) or self._is_near(entry, vector_of)):
            return None
        return entry.cached

    def _is_near(self, entry: _KeptAnswer, vector_of: VectorOf) -> bool:
        vector = None if entry.vector is None else vector_of()
        if vector is None or entry.vector is None or vector.shape != entry.vector.shape:
            return False
        return float(vector @ entry.vector) >= self._settings.min_similarity


def _key(scope: AnswerScope, question: str) -> bytes:
    signature = signature_of(question)
    asked = b"=" + _exact(question) if signature is None else b"~" + digest_of(signature)
    return hashlib.sha256(scope.digest + asked).digest()


def _exact(question: str) -> bytes:
    return hashlib.sha256(" ".join(question.split()).encode("utf-8", "surrogatepass")).digest()


MayRead = Callable[[frozenset[str]], bool]
"""Whether the reader may read all of some pages as they are published now."""


@dataclass(frozen=True)
class Asking:
    """A question whose answer is cached: the asker, and all inputs of the answer apart from the pages."""

    principal: Principal
    text: str
    scope: Mapping[str, object]  # filters and the like, as JSON has them

    @property
    def key(self) -> bytes:
        """Return a digest of the question as it is compared: no text of it is kept."""
        text = " ".join(unicodedata.normalize("NFKC", self.text).casefold().split()).rstrip(" ?!.")
        told = json.dumps([self.principal.tenant, text, self.scope], sort_keys=True, default=repr)
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()

    @property
    def asker(self) -> bytes:
        """A digest of the asker."""
        return hashlib.sha256(repr(self.principal.user).encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class AnswerSource:
    """An answer's sources: its generation's reader classes, those that its asker satisfies, its passages' pages."""

    known: frozenset[str]
    classes: frozenset[str]
    pages: frozenset[str]


@dataclass(frozen=True)
class _Kept:
    answer: Answer
    source: AnswerSource
    asker: bytes
    at: float


class KeptAnswers:
    """The last good answers of one tenant, for when no phase of retrieval answers. Safe to use from several threads."""

    def __init__(self, settings: Degradation, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self.entries: BoundedEntries[tuple[bytes, frozenset[str]], _Kept] = BoundedEntries(
            settings.cached_answers, settings.cached_bytes
        )

    def put(self, asking: Asking, answer: Answer, source: AnswerSource) -> None:
        """Store an answer if it is confident and nothing was degraded."""
        if answer.outcome != "told" or not FINDINGS.issuperset(answer.flags):
            return
        kept = _Kept(bare(answer), source, asking.asker, self._clock())
        self.entries.put((asking.key, source.classes), kept, size_of(kept.answer))

    def get(self, asking: Asking, published: str, may_read: MayRead) -> Answer | None:
        """Return the newest answer that may be shown, which says how old it is; None if there is none. `published`: the
        id of the generation that is published now."""
        wanted = asking.key
        found = [kept for (question, _), kept in self.entries.items() if question == wanted]
        for kept in sorted(found, key=lambda kept: -kept.at):
            if self._clock() - kept.at > self._settings.cached_max_age_s:
                break
            classes = satisfied_classes(asking.principal, asking.principal.tenant, kept.source.known)
            is_same = kept.answer.generation == published
            if classes == kept.source.classes and (is_same or may_read(kept.source.pages)):
                return self._shown(kept, is_same, kept.asker == asking.asker)
        return None

    def _shown(self, kept: _Kept, is_same: bool, is_own: bool) -> Answer:
        """Return the answer marked as an earlier one. Only its own asker may open its receipt; other occurrences of a
        passage are listed for their own generation only."""
        answer, age = kept.answer, told_age(self._clock() - kept.at)
        text = f"Search is not available at the moment. This is the answer that the same question had {age} ago"
        text += "." if is_same else (
            f", from another version of the pages (generation {answer.generation}). They may have changed since."
        )  # fmt: skip
        citations = answer.citations
        if not is_same:
            citations = tuple(replace(citation, also_at=()) for citation in citations)
        return replace(
            answer,
            citations=citations,
            clarification=Clarification(text),
            receipt_id=answer.receipt_id if is_own else None,
            flags=(*answer.flags, CACHED if is_same else CACHED_OLDER),
            phase=None,
            usage=None,
        )


def told_age(seconds: float) -> str:
    """Return a span of time in words, in its largest whole unit."""
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count := int(seconds // length):
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"


LONGEST = 400
"""Characters; a longer question is no common one, and has no signature."""

_PIECE = re.compile(r"\w+(?:[.,:/@&+#'_-]+\w+)*(?:\+\+|#)?%?|[^\s\w]")
_NO_WORD = frozenset("?!.,;:'()[]*`-\"")
_WE = r"(?:i|we|you|one|people|users?|someone|anyone|somebody|anybody)"
_PERIOD = r"how (?:long|many (?:minutes|hours|days|weeks|months|years))\b"
_QUESTION = r"(?=(?:for )?(?:what|which|who|whom|whose|when|where|why|how)\b)"
_YOU = r"(?:you|someone|anyone|somebody|anybody)(?: here)?"
# Openings that ask for no more than what follows them; matched again and again at the beginning.
_POLITE = re.compile(
    r"(?:please|kindly|(?:quick |a |short )*question|so|ok|okay|well|hmm?)\b[\s,:.!-]{0,9}(?=\w)"
    rf"|(?:can|could|would|will|do|does) {_YOU}(?: please)?(?: happen to)? (?:tell|show|explain|know)"
    rf"(?: to)?(?: me| us)?,?\s{_QUESTION}"
    rf"|(?:tell|show|remind|explain to) (?:me|us),?\s{_QUESTION}|explain\s{_QUESTION}"
    rf"|(?:i|we)(?: would|'d) (?:like|love) to know,?\s|(?:i|we) (?:want|need) to know,?\s"
    rf"|i(?: was|'m| am) (?:just )?wondering,?\s{_QUESTION}",
    re.IGNORECASE,
)
_MOST_OPENINGS = 4
_CLOSING = re.compile(r"(?<![\s,])[\s,]{1,9}(?:please|pls)[\s.!?]{0,9}\Z", re.IGNORECASE)
_HOW_TO = re.compile(
    rf"(?:how (?:do|can|could|would) {_WE}(?: go about)?|how to"
    r"|what(?:'s| is| are) the (?:steps?|procedure|process|way|instructions) (?:to|for|of)"
    r"|what steps (?:do i need|are needed) to|(?:the )?(?:steps|instructions|procedure) (?:to|for))\s(?=\w)",
    re.IGNORECASE,
)
_REWORDED = tuple(
    (re.compile(pattern, re.IGNORECASE), other)
    for pattern, other in (
        (r"^(what|who|where|when|how|which) (.{1,200}) (is|are|was|were)[?.!]{0,3}\Z", r"\1 \3 \2"),
        (r"^what(?:'s| is) the reason (?:for|why)\s", "why is "),
        (r"^(?:for what reason|how come)\s", "why "),
        (r"^(?:at )?what time (?=(?:do|does|did|is|are|was|were|will|can|must|should)\b)", "when "),
        (r"^what(?:'s| is) the (?:length|duration) of\s", "how long is "),
        (rf"^for (?={_PERIOD})", ""),
        (rf"^({_PERIOD} .{{1,300}}?)\sfor[?.!]{{0,3}}\Z", r"\1"),
        (rf"^(?:(?:is|would) it (?:be )?possible (?:for (?:me|us|{_WE}) )?|(?:am i|are we) able )to\s", "can i "),
        (r"^is it possible for (.{1,200}?) to\s", r"can \1 "),
        (r"^what(?:'s| is) the location of\s", "where is "),
        (r"^(?:tell me|what can you tell me) about\s", "what is "),
        (r"^where (is|are) (.{1,200}) located[?.!]{0,3}\Z", r"where \1 \2"),
    )
)
_FRONTED = re.compile(r"^((?:in|on|at|for|during|under) [^,?]{1,80}), ([^,?]{3,300})[?.!]{0,3}\Z", re.IGNORECASE)
_GENITIVE = re.compile(
    r"(?<![\w'.-])(?:the |an? )?([a-z][a-z-]{1,40}) of (?:the |an? )?([\w.+#-]{1,60})[?.!]{0,3}\Z", re.IGNORECASE
)
_POSSESSIVE = re.compile(r"(?<=[a-z0-9])'s(?= \w)", re.IGNORECASE)
_CONTRACTED = tuple(
    (re.compile(pattern, re.IGNORECASE), other)
    for pattern, other in (
        (r"\b(what|who|where|when|how|why|that|it|there)'s\b", r"\1 is"),
        (r"\b(what|who|where|when|how|why)'re\b", r"\1 are"),
        (r"\bcan(?:'t|not)\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\b([a-z]{2,6})n't\b", r"\1 not"),
        (r"\b(i|we|you|they)'ve\b", r"\1 have"),
        (r"\be-mail", "email"),
    )
)
_ARTICLES = frozenset({"a", "an", "the"})
# Pairs, of which the second is the one form.
_PAIRS = """
is be|are be|am be|been be|does do|has have|were was|whom who|we i|my our|your our
max maximum|min minimum|config configuration|docs documentation|repo repository|admin administrator|app application
info information|db database|spec specification|directory folder|telephone phone|picture photo
begin start|choose select|buy purchase|dept department|org organization|organisation organization
approx approximately|vs versus|colour color|licence license|centre center
"""
_ONE_FORM = dict(pair.split() for line in _PAIRS.strip().splitlines() for pair in line.split("|"))
# Words that are no plurals, or whose plural is another word.
_SINGULAR = """
news goods customs securities means arms minutes contents premises damages remains glasses forces savings earnings
proceeds headquarters series species works terms windows papers quarters grounds manners morals letters effects always
across access address canvas business sales rights odds thanks dues spirits holdings brains looks colors yours ours hers
theirs perhaps sometimes besides towards afterwards
"""
_NO_PLURALS = frozenset(_SINGULAR.split())
# Words that are others with a capital letter: months, first names, products, German's polite form.
_CAPITAL = """
may march august will mark bill frank rose grace hope dean grant chase jack rob sue art gene drew wade guy jean pat
turkey china polish nice reading mobile apple oracle shell target visa word teams team slack zoom excel outlook
notes drive sheets meet chat forms pages numbers keynote python java rust go swift ruby spark flink storm hive beam
puppet chef salt vault consul nomad packer terraform docker helm flux argo istio envoy linkerd concourse travis buddy
sie ihr ihre ihrem ihren ihrer ihres ihnen
"""
_CASE_TELLS = frozenset(_CAPITAL.split())
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_ENDS_LIKE_ONE = re.compile(r"(?:ss|us|is|as|os|ics)\Z")


def signature_of(question: str) -> tuple[str, ...] | None:
    """Return the parts that must be equal for two questions to have one answer; None if only identical text may share
    one: with operators (`space:OPS`, "quoted words"), without words, or longer than `LONGEST`."""
    if len(question) > LONGEST:
        return None
    signs = read_signs(question)
    if signs.filters or signs.phrases:
        return None
    text, is_steps = _opened(" ".join(folded(question).split()))
    kind = "claim" if is_claim(text) else "steps" if is_steps else kind_of(text.rstrip(" ?"))
    words = tuple(_canonical(text, is_steps))
    return (kind, *words) if any(any(map(str.isalnum, word)) for word in words) else None


def digest_of(signature: tuple[str, ...]) -> bytes:
    """Return a digest of a signature: no text of a question is kept."""
    return hashlib.sha256("\0".join(signature).encode("utf-8", "surrogatepass")).digest()


def _opened(text: str) -> tuple[str, bool]:
    """Return a question without its opening and closing phrases, and whether it is a how-to."""
    text = _CLOSING.sub("", without_greeting(text))
    for _ in range(_MOST_OPENINGS):
        text = text[match.end() :] if (match := _POLITE.match(text)) else text
    if match := _FRONTED.match(text):
        text = f"{match[2]} {match[1]}"
    for pattern, other in (*_CONTRACTED, *_REWORDED):
        text = pattern.sub(other, text)
    opening = _HOW_TO.match(text)
    return (text[opening.end() :], True) if opening else (text, False)


def _canonical(text: str, is_steps: bool) -> Iterator[str]:
    """Yield the words of a question that count, in order, each in its one form."""
    text = _GENITIVE.sub(r"\2 \1", _POSSESSIVE.sub("", text))
    is_loud = text.isupper()
    for place, match in enumerate(_PIECE.finditer(text)):
        piece = match[0]
        if not piece[0].isalnum() and piece[0] != "_":
            if piece not in _NO_WORD or _is_sign(text, match.start()):
                yield piece
        elif is_steps and place == 0 and piece.isalpha() and piece.isascii():
            yield stems([_ONE_FORM.get(piece.lower(), piece.lower())])[0]
        elif form := _form(piece, place > 0 and not is_loud):
            yield form


def _is_sign(text: str, at: int) -> bool:
    return text[at] in ".-" and text[at + 1 : at + 2].isalnum() and not text[max(0, at - 1) : at].strip()


def _form(word: str, is_case_told: bool) -> str:
    """Return the one form of a word, empty if it does not count; `is_case_told`: its capital letter counts."""
    lower = word.lower()
    is_name = is_case_told and word[0].isupper() and lower != "i"
    if is_name and lower in STOP_WORDS and (word.isupper() or lower in _ARTICLES):
        return word  # IT, US and vitamin A
    if is_name and lower in _CASE_TELLS:
        return word
    if lower in _ARTICLES:
        return ""
    if any(map(str.isdigit, lower)):
        return lower.replace(",", "") if _GROUPED.fullmatch(lower) else lower
    if lower in SPELLED and lower not in ("one", "million", "dozen", "twice"):
        return SPELLED[lower]
    lower = _ONE_FORM.get(lower, lower)
    return lower if is_name or not lower.isascii() else _singular(lower)


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word in _NO_PLURALS or _ENDS_LIKE_ONE.search(word):
        return word
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "xes", "tches")) else word[:-1]
