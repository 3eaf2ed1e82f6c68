"""Flags of an answer: findings in the pages, or degradations; and each of them in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

CLOSEST_PASSAGE = "closest_passage"
CONFLICTING = "conflicting_figures"
SUPERSEDED = "superseded_passage"
LANGUAGE_NOT_SERVED = "language_not_served"
NO_SHARED_WORDS = "no_shared_words"
INSTRUCTIONS_UNUSED = "instructions_not_used"
OCR_QUOTE, LOW_OCR = "ocr_quote", "low_ocr_confidence"
PHASE_3_FAILED, PHASE_2_FAILED, PHASE_1_FAILED = "phase_3_failed", "phase_2_failed", "phase_1_failed"
PHASE_FAILED: Mapping[int, str] = MappingProxyType({3: PHASE_3_FAILED, 2: PHASE_2_FAILED, 1: PHASE_1_FAILED})
"""By the phase of retrieval that failed a question, or took too long for it."""
PHASE_LOWERED, RETRIEVAL_DISABLED = "phase_lowered", "retrieval_disabled"
CACHED, CACHED_OLDER = "cached_answer", "cached_answer_of_other_pages"
REPEATED = "cached"
NEARLY_SPENT = "budget_nearly_spent"
STILL_INDEXING = "still_indexing"
FINDINGS = frozenset(
    {
        CLOSEST_PASSAGE, CONFLICTING, SUPERSEDED, LANGUAGE_NOT_SERVED, NO_SHARED_WORDS, OCR_QUOTE, LOW_OCR, REPEATED,
        NEARLY_SPENT,
    }
)  # fmt: skip
"""Flags under which nothing was degraded."""

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        CLOSEST_PASSAGE: "No sentence answers this with enough certainty; these passages come closest.",
        CONFLICTING: "The cited pages give different values for this.",
        SUPERSEDED: "A cited passage is marked as no longer in force.",
        OCR_QUOTE: "OCR read a quote from an image of its page.",
        LOW_OCR: "OCR was not sure of a quote that it read from an image: compare it with the page.",
        LANGUAGE_NOT_SERVED: "Neither the pages nor the search model are in the language of the question.",
        NO_SHARED_WORDS: "The passages have none of the question's words: they were found by their meaning alone.",
        PHASE_3_FAILED: "The search by words and meaning failed or took too long; a simpler one was used.",
        PHASE_2_FAILED: "The keyword search of passages failed or took too long.",
        PHASE_1_FAILED: "The keyword search of documents failed or took too long.",
        PHASE_LOWERED: "A simpler search is in use for a while, because the usual one failed or was too slow.",
        RETRIEVAL_DISABLED: "Search is switched off.",
        STILL_INDEXING: "The documents are still being indexed; passages were found by their words alone.",
        REPEATED: "The same question was answered before, from the same version of the pages.",
        NEARLY_SPENT: "The budget is nearly spent; once it is, questions are refused until it is renewed.",
        CACHED: "Search is not available; this is the earlier answer to the same question.",
        CACHED_OLDER: "Search is not available; this is an earlier answer, from another version of the pages.",
        "conversation_not_read": "The earlier questions could not be read; this one was asked alone.",
        "dense_index_searched_exactly": "Part of the search by meaning was done without its index: slower, not worse.",
        "dense_unavailable": "The search by meaning was not available; passages were found by their words alone.",
        "generator_cut_off": "The language model was cut off; only its finished sentences were kept.",
        "generator_unavailable": "The language model was not available; sentences of the pages answer instead.",
        INSTRUCTIONS_UNUSED: "The client's instructions were not followed: answers come from the pages alone.",
        "injection_neutralized": "A page has instructions to a language model; they were removed from what it read.",
        "lexical_unavailable": "The search by words was not available; passages were found by meaning alone.",
        "places_unavailable": "The places of the quotes on their pages could not be looked up.",
        "question_not_rewritten": "The language model could not complete the question from earlier ones; rules did.",
        "receipt_not_stored": "No receipt of this answer could be stored, so it cannot be verified later.",
        "reranker_unavailable": "The reranking model was not available; passages were ordered by their words.",
        "sentence_vectors_unavailable": "Sentences could not be compared by meaning; they were chosen by their words.",
        "session_unavailable": "The session could not be read, or the question could not be stored in it.",
        "session_unknown": "There is no such session; the question was not stored.",
        "stale_generation": "A newer version of the pages was still being opened; this is from the one before.",
        "unsupported_claims": "A sentence of the language model was not the page's own, whose words are shown instead.",
    }
)


def flags_told(flags: Iterable[str]) -> list[dict[str, str]]:
    """Return flags with their meaning."""
    return [{"flag": flag, "text": SENTENCES.get(flag, flag.replace("_", " "))} for flag in flags]
