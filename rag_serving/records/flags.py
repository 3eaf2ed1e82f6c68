"""Flags of an answer: what the pages hold, or what was degraded; and each of them in words.

Belongs here: names of those that say what the pages hold, a sentence for every flag there is.
Does not belong here: when one is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

CLOSEST_PASSAGE = "closest_passage"
CONFLICTING = "conflicting_figures"
SUPERSEDED = "superseded_passage"
LANGUAGE_NOT_SERVED = "language_not_served"
INSTRUCTIONS_UNUSED = "instructions_not_used"
OCR_QUOTE, LOW_OCR = "ocr_quote", "low_ocr_confidence"
FINDINGS = frozenset({CLOSEST_PASSAGE, CONFLICTING, SUPERSEDED, LANGUAGE_NOT_SERVED, OCR_QUOTE, LOW_OCR})

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        CLOSEST_PASSAGE: "No confident answer was found; these passages come closest.",
        CONFLICTING: "The cited pages give different values for this.",
        SUPERSEDED: "A cited passage is marked as no longer in force.",
        OCR_QUOTE: "A quote was read from a picture of its page by OCR.",
        LOW_OCR: "OCR was not sure of a quote that it read from a picture: compare it with the page.",
        LANGUAGE_NOT_SERVED: "Neither the pages nor the search model are in the language of the question.",
        "claims_doubted_by_the_model": "The language model doubted a sentence; the page's own words are shown instead.",
        "claims_not_judged": "The language model could not be asked whether the sentences follow from the passages.",
        "dense_index_searched_exactly": "Part of the search by meaning was done without its index: slower, not worse.",
        "dense_unavailable": "The search by meaning was not available; passages were found by their words alone.",
        "generator_cut_off": "The language model was cut off; only its finished sentences were kept.",
        "generator_unavailable": "The language model was not available; sentences of the pages answer instead.",
        INSTRUCTIONS_UNUSED: "Instructions of the client were not followed: answers come from the pages alone.",
        "injection_neutralized": "A page holds orders to a language model; they were taken out of what it read.",
        "lexical_unavailable": "The search by words was not available; passages were found by meaning alone.",
        "places_unavailable": "Where the quotes stand on their pages could not be looked up.",
        "receipt_not_stored": "No receipt of this answer could be stored, so it cannot be verified later.",
        "reranker_unavailable": "The reranking model was not available; passages were ordered by their words.",
        "sentence_vectors_unavailable": "Sentences could not be compared by meaning; they were chosen by their words.",
        "stale_generation": "A newer version of the pages was still being opened; this is from the one before.",
        "unsupported_claims": "A sentence of the language model said otherwise than its passage; it is not shown.",
    }
)


def flags_told(flags: Iterable[str]) -> list[dict[str, str]]:
    """Return flags with what they mean."""
    return [{"flag": flag, "text": SENTENCES.get(flag, flag.replace("_", " "))} for flag in flags]
