"""Flags of an answer: findings in the pages, or degradations; and each of them in words."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
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


@cache
def sentences() -> Mapping[str, str]:
    """Return what each flag says, as `flags.toml` has it."""
    return tomllib.loads(Path(__file__).with_name("flags.toml").read_text(encoding="utf-8"))


def flags_told(flags: Iterable[str]) -> list[dict[str, str]]:
    """Return flags with their meaning."""
    return [{"flag": flag, "text": sentences().get(flag, flag.replace("_", " "))} for flag in flags]
