"""Gates: whether a text is a question, whether the passages can answer it, whether the best sentence does."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_serving.answering.clarifying import WHICH_PART, asked_back, closest
from rag_serving.answering.comparing.typed import Opening, mark_of
from rag_serving.answering.writing.sanitizing import without_links
from rag_serving.config.sections import Gates
from rag_serving.records.answers import Answer, Status
from rag_serving.records.claims import EXTRACTIVE, Draft, RejectedCandidate, Verdict
from rag_serving.records.decisions import Clarification, Decision, Gate, Refusal, Rejected
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import SEPARATED_NAME, stems
from rag_serving.text.currency import docs_version, names_version
from rag_serving.text.directed import directed_units, without_directed
from rag_serving.text.orders import is_order, orders_assistant
from rag_serving.text.question_types import is_claim
from rag_serving.text.small_talk import Remark, plain_words

_SENTENCE_CHARS = 300


def nothing_kept(found: int, min_overlap: int) -> Refusal:
    """Return why no passage was kept, given the number of readable matches."""
    if not found:
        return Refusal("passages", "nothing was found among the pages that you may read")
    words = f"{min_overlap} words" if min_overlap > 1 else "a word"
    return Refusal(
        "passages", f"{_count(found, 'passage')} looked at: none is content that shares {words} with the question"
    )


def too_far(passages: int, likeness: Mapping[str, float], gates: Gates) -> Refusal:
    """Return why passages are too far from the question; without a similarity its words alone decided."""
    coverage, similarity = likeness["coverage"], likeness.get("similarity")
    words = f"one holds at most {coverage:.0%} of the question's words by weight, {gates.min_coverage:.0%} would do"
    looked = f"{_count(passages, 'passage')} looked at"
    if similarity is None:
        return Refusal("coverage", f"{looked}: {words}", coverage, gates.min_coverage)
    near = f"the nearest has a similarity of {similarity:.2f}, {gates.min_similarity:.2f} is needed"
    told = near if gates.min_coverage > 1 else f"{near}; {words}"  # beyond 1 words do not count
    return Refusal("similarity", f"{looked}: {told}", similarity, gates.min_similarity)


def not_written(draft: Draft, lock: Lock) -> Refusal:
    """Return why nothing of a draft is shown: no claim, or no verified one. The reason for rejecting a claim is left
    out: it may repeat a model's words."""
    looked = f"{_count(len(lock), 'passage')} looked at"
    if draft.declined:
        return Refusal("declined", f"{looked}: {draft.model} found no answer in them")
    if not draft.claims:
        return Refusal("no_sentence", f"{looked}: no sentence of them can answer")
    return Refusal("verification", f"{looked}: nothing that was written is borne out by them")


def best_rejected(draft: Draft, verdicts: Sequence[Verdict], lock: Lock) -> Rejected | None:
    """Return the best claim of a draft with its passage; None if no claim names a passage. Beside passages that order
    an assistant about, a model's claim is shown only if its passage says so to readers: it may follow the order."""
    chunks = [] if draft.model == EXTRACTIVE else [candidate.chunk for candidate in lock.passages]
    may_obey = any(
        directed_units(each.text, each.parts, each.headings) or any(map(orders_assistant, each.headings.splitlines()))
        for each in chunks
    )
    for claim in draft.claims:
        if passage := lock.passage(claim.index):
            chunk = passage.chunk
            if may_obey and claim.text not in without_directed(chunk.text, chunk.parts, chunk.headings):
                continue
            reason = next((verdict.reason for verdict in verdicts if verdict.claim == claim), "")
            told = [_shortened(without_links(text, chunk.text)[0]) for text in (claim.text, reason)]
            title = " → ".join(chunk.heading_path) or chunk.title
            return Rejected(told[0], chunk.chunk_id, title, chunk.url, told[1])
    return None


def rejected_shapes(rejected: Sequence[RejectedCandidate], lock: Lock) -> list[dict[str, Any]]:
    """Return the next best sentences as an explanation shows them, without those that order an assistant about."""
    return [
        {
            **vars(each),
            "chunk_id": passage.chunk.chunk_id,
            "text": _shortened(each.text),
            "features": dict(each.features),
        }
        for each in rejected
        if (passage := lock.passage(each.passage)) and not orders_assistant(each.text)
    ]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE_CHARS else line[: _SENTENCE_CHARS - 1] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


NOT_FOUND = "Not found in docs."
CLOSEST = "This may answer it:"
"""The line above passages that are shown without confidence; clients that know no outcome show it, too."""
REFUSED_ORDER = "This asks to answer by other rules than the pages'. Ask what the pages tell."
REFUSED_EMPTY = "This has no words to look for. Ask a question in words."
CLARIFY_POINTER = WHICH_PART
REMARKS: Mapping[Remark, str] = {
    "greeting": "Hello. Ask a question about the pages.",
    "thanks": "You are welcome. Ask more about the pages whenever you like.",
    "farewell": "Goodbye. Ask about the pages whenever you like.",
    "complaint": "Sorry about that. Say what is wrong by its name: the page, product, setting or error message.",
    "command": "Nothing was done: this only answers questions from the pages.",
    "help": "Ask a question about the pages: name the product, setting, rule or error message.",
    "test": "It works. Ask a question about the pages.",
    "noise": "No page holds these letters. Ask a question in words.",
}
"""What is replied to what asks nothing; examples of questions follow."""
ASKING_NOTHING: frozenset[Gate] = frozenset({"empty", "pointer", "remark"})

_LETTER = re.compile(r"[^\W_]")
_STEM = 6  # leading letters of a mark in a question that asks for it: reject, deprec, planne


@dataclass(frozen=True)
class Stop:
    """The reason not to answer a question."""

    status: Status
    message: str
    refusal: Refusal
    clarification: Clarification | None = None

    def answer(self, generation: str = "", lock: Lock | None = None) -> Answer:
        """Return the answer for this stop, with the closest page if there is one."""
        clarification = self.clarification or (closest(lock) if lock else None)
        return Answer(
            self.status, self.message, clarification=clarification, refusal=self.refusal, generation=generation
        )


def gate_question(question: str, terms: Collection[str], typed: str = "", remark: Remark | None = None) -> Stop | None:
    """Stop orders, questions without words, and bare references (`How does it work?`). `typed` is the question before
    it was resolved; `remark` is its kind if it is no question."""
    if not _LETTER.search(question):
        return Stop("refused", REFUSED_EMPTY, Refusal("empty", "the question has no letters"))
    if is_order(question) or (typed and typed != question and is_order(typed)):
        return Stop("refused", REFUSED_ORDER, Refusal("order", "a sentence gives orders to a model"))
    if remark and (terms or remark != "help"):
        status: Status = "refused" if remark == "command" else "clarify"
        return Stop(status, REMARKS[remark], Refusal("remark", f"it asks nothing of the pages: {remark}"))
    if not terms:
        return Stop("clarify", CLARIFY_POINTER, Refusal("pointer", "the question has no word that a page could hold"))
    return None


def gate_meaning(decision: Decision | None, *answered: str) -> Stop | None:
    """Stop an unclear question: an uncertain meaning, several, or none. `answered`: the actions that do not stop it."""
    if decision is None or decision.action in answered:
        return None
    told = asked_back(decision)
    return Stop("clarify", told.text, Refusal("meaning", decision.reason, decision.confidence), told)


def is_heading(text: str, lock: Lock) -> bool:
    """Return whether a text is the title or a heading of a locked passage, whatever remark it may be elsewhere."""
    said = plain_words(text)
    return any(said == plain_words(each) for found in lock.passages for each in found.chunk.headings.splitlines())


def likeness(
    lock: Lock, terms: Set[str], weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]]
) -> dict[str, float]:
    """Return how near the locked passages come: the best cosine similarity, and the best share of the question's
    weight. Without a dense score (the model is down) there is no `similarity`."""
    total = sum(weights.get(term, 0.0) for term in sorted(terms)) or 1.0
    covered = 0.0
    for candidate in lock.passages:
        have = terms & set(analyze(" ".join((*candidate.chunk.heading_path, candidate.chunk.text))))
        covered = max(covered, sum(weights.get(term, 0.0) for term in sorted(have)) / total)
    near = [candidate.scores["dense"] for candidate in lock.passages if "dense" in candidate.scores]
    return {"coverage": covered, **({"similarity": max(near)} if near else {})}


def gate_passages(lock: Lock, found: Mapping[str, float], gates: Gates) -> Stop | None:
    """Stop if no passage matches, or none is close by meaning or by words."""
    if not lock.passages:
        return Stop("not_found", NOT_FOUND, nothing_kept(0, 1))
    if found.get("similarity", 0.0) >= gates.min_similarity or found["coverage"] >= gates.min_coverage:
        return None
    return Stop("not_found", NOT_FOUND, too_far(len(lock), found, gates))


def least_confidence(question: str, gates: Gates) -> float:
    """Return the confidence that an answer to this question needs."""
    return gates.min_confidence_statement if is_claim(question) else gates.min_confidence


def gate_confidence(question: str, confidence: float | None, gates: Gates, passages: int = 1) -> Refusal | None:
    """Return why an answer lacks confidence; a writer that reports none is trusted."""
    least = least_confidence(question, gates)
    if confidence is None or confidence >= least:
        return None
    reason = f"the best sentence answers with a confidence of {confidence:.2f}, {least:.2f} is needed"
    reason += f", {gates.min_closest:.2f} to be shown as the closest" if confidence < gates.min_closest < least else ""
    return Refusal("confidence", f"{_count(passages, 'passage')} looked at: {reason}", confidence, least)


def gate_ocr(verdicts: Sequence[Verdict], lock: Lock, least: int) -> Refusal | None:
    """Return why an answer lacks confidence: OCR read every verified quote with less than `least`."""
    read = [
        passage.chunk.ocr_confidence(v.start, v.end)
        if (passage := lock.passage(v.index or 0)) and v.start is not None and v.end is not None
        else None
        for v in verdicts
        if v.outcome != "dropped"
    ]
    unsure = [confidence for confidence in read if confidence is not None and confidence < least]
    if not unsure or len(unsure) < len(read):
        return None
    reason = f"OCR read the best quote with a confidence of {max(unsure)} %, {least} % is needed"
    return Refusal("ocr", f"{_count(len(lock), 'passage')} looked at: {reason}", max(unsure), least)


def gate_named(question: str, verdicts: Sequence[Verdict], lock: Lock) -> Refusal | None:
    """Return why an answer lacks confidence: the question names an identifier or a number that appears in no shown
    passage and in no heading above one."""
    shown = [
        f"{passage.chunk.headings}\n{verdict.told}"
        for verdict in verdicts
        if verdict.outcome != "dropped" and (passage := lock.passage(verdict.index or 0))
    ]
    missing = next((name for name in names_in(question) if not any(name.is_in(text) for text in shown)), None)
    return (
        Refusal("named", f"{_count(len(lock), 'passage')} looked at: the best does not name {missing.text!r}")
        if shown and missing
        else None
    )


def gate_marked(question: str, verdicts: Sequence[Verdict], lock: Lock, opening: Opening) -> Refusal | None:
    """Return why an answer lacks confidence: every shown passage is marked as not in force, and the question does not
    ask for such passages (`Which alternatives were rejected?`)."""
    shown = {v.index: p.chunk for v in verdicts if v.outcome != "dropped" and (p := lock.passage(v.index or 0))}
    named = [names_version(question, docs_version(chunk.title) or "-") for chunk in shown.values()]
    marks = [] if any(named) else [mark_of(chunk, opening(chunk)) for chunk in shown.values()]
    mark = marks[0] if marks else None
    is_asked_for = mark is not None and mark.word[:_STEM] in question.lower()
    if mark is None or not all(marks) or is_asked_for:
        return None
    return Refusal("marked", f"{_count(len(lock), 'passage')} looked at: the best is marked as {mark.told}")


def is_close(confidence: float | None, gates: Gates) -> bool:
    """Return whether an extracted answer may be shown as the closest."""
    return confidence is not None and confidence >= gates.min_closest


_IDENTIFIER = re.compile(rf"{SEPARATED_NAME}|\b[A-Z]{{2,}}-?\d+\b")
_NUMBER_OF = r"(?:numbers?|no\.?|nr\.?|nummer|#)"
_NUMBERED = re.compile(
    rf"\b(?P<noun>[^\W\d_]{{3,}})\s+(?:{_NUMBER_OF}\s*)?#?(?P<number>\d{{1,6}}(?:\.\d{{1,4}}){{0,3}})\b"
    r"(?![\w%€$:/-]|[.,]\d|\s*(?:[^\W\d_]+s|euros?|percent|prozent|[kmgt]?b|ms|km|kg|min|°c)\b)",
    re.IGNORECASE,
)
# Words before a number that count or measure, or say when and where: no role.
_NO_ROLE_WORDS = """
about above after all and are around before below between but by can costs equals every exactly expects first for from
has have into is just last least less more most need needs next nearly not only onto over per pays plus roughly sends
since takes than that the their these this those till times top under until upto was were when where which with within
without get gets got use uses used set sets year years january february march april may june july august september
october november december monday tuesday wednesday thursday friday saturday sunday über unter nach vor bis seit mit für
alle jede mehr als circa etwa
"""
_NO_ROLE = frozenset(_NO_ROLE_WORDS.split())
_WORD = re.compile(r"[^\W\d_]{3,}")
_FIGURE = re.compile(r"(?<![\w.,])\d{1,6}(?:\.\d{1,4}){0,3}(?![\w%]|[.,]\d)")
_NEAR = 40  # characters between a number and the noun before it


@dataclass(frozen=True)
class Name:
    """An identifier, or a number in the role of a noun."""

    text: str
    noun: str = ""  # empty: an identifier
    number: str = ""

    @cached_property
    def _stem(self) -> str:
        return stems([self.noun.lower()])[0]

    def is_in(self, text: str) -> bool:
        """Return whether a text has the identifier, or the number behind its noun."""
        if not self.noun:
            return self.text.lower() in text.lower()
        return any(self._is_near(text, found.start()) for found in _FIGURE.finditer(text) if found[0] == self.number)

    def _is_near(self, text: str, at: int) -> bool:
        before = text[max(0, at - _NEAR) : at].rpartition("\n")[2]
        words = [word.lower() for word in _WORD.findall(before) if not re.fullmatch(_NUMBER_OF, word, re.IGNORECASE)]
        return bool(words) and stems([words[-1]])[0] == self._stem


def names_in(question: str) -> Iterator[Name]:
    """Yield the names in a question: identifiers, or numbers in a role."""
    for found in _IDENTIFIER.finditer(question):
        yield Name(found[0])
    for found in _NUMBERED.finditer(question):
        if found["noun"].lower() not in _NO_ROLE:
            yield Name(found[0], found["noun"], found["number"])
