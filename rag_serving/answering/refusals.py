"""Reasons for an unconfident answer: the deciding gate, the margin, the nearest sentence.

Belongs here: the wording of reasons, the best sentence that was not good enough.
Does not belong here: deciding (`answering.gates`), statuses and messages (`answering.answerer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_serving.answering.writing.sanitizing import without_links
from rag_serving.config.sections import Gates
from rag_serving.records.claims import EXTRACTIVE, Draft, RejectedCandidate, Verdict
from rag_serving.records.decisions import Refusal, Rejected
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.directed import directed_units, without_directed
from rag_serving.text.orders import orders_assistant

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


def too_doubtful(passages: int, confidence: float, least: float, closest: float) -> Refusal:
    """Return why the best sentence is no confident answer; from `closest` on it is shown as the closest passage."""
    reason = f"the best sentence answers with a confidence of {confidence:.2f}, {least:.2f} is needed"
    reason += f", {closest:.2f} to be shown as the closest" if confidence < closest < least else ""
    return Refusal("confidence", f"{_count(passages, 'passage')} looked at: {reason}", confidence, least)


def badly_read(passages: int, confidence: int, least: int) -> Refusal:
    """Return why an answer from pictures of pages is not confident: OCR was unsure."""
    reason = f"OCR read the best quote with a confidence of {confidence} %, {least} % is needed"
    return Refusal("ocr", f"{_count(passages, 'passage')} looked at: {reason}", confidence, least)


def not_named(passages: int, name: str) -> Refusal:
    """Return why an answer is not confident: it lacks a name in the question."""
    return Refusal("named", f"{_count(passages, 'passage')} looked at: the best does not name {name!r}")


def disowned(passages: int, mark: str) -> Refusal:
    """Return why an answer from a passage that is marked as out of force is no confident one."""
    return Refusal("marked", f"{_count(passages, 'passage')} looked at: the best is marked as {mark}")


def not_written(draft: Draft, lock: Lock) -> Refusal:
    """Return why nothing of a draft is shown: no claim, or no verified one.

    The reason for rejecting a claim is left out: it may repeat a model's words.
    """
    looked = f"{_count(len(lock), 'passage')} looked at"
    if draft.declined:
        return Refusal("declined", f"{looked}: {draft.model} found no answer in them")
    if not draft.claims:
        return Refusal("no_sentence", f"{looked}: no sentence of them can answer")
    return Refusal("verification", f"{looked}: nothing that was written is borne out by them")


def best_rejected(draft: Draft, verdicts: Sequence[Verdict], lock: Lock) -> Rejected | None:
    """Return the best claim of a draft with its passage; None if no claim names a passage.

    Beside passages that order an assistant about, a model's claim is shown only if its passage says so to readers: it
    may follow the order.
    """
    may_obey = draft.model != EXTRACTIVE and any(_orders(candidate.chunk) for candidate in lock.passages)
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


def _orders(chunk: Chunk) -> bool:
    """Return whether a passage, or a heading above it, orders an assistant about."""
    return bool(directed_units(chunk.text, chunk.parts, chunk.headings)) or any(
        map(orders_assistant, chunk.headings.splitlines())
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE_CHARS else line[: _SENTENCE_CHARS - 1] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
