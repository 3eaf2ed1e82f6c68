"""Flags of an answer that say what the pages hold; all others name what was degraded.

Belongs here: their names. Does not belong here: when one is raised.
"""

from __future__ import annotations

CLOSEST_PASSAGE = "closest_passage"
CONFLICTING = "conflicting_figures"
SUPERSEDED = "superseded_passage"
LANGUAGE_NOT_SERVED = "language_not_served"
FINDINGS = frozenset({CLOSEST_PASSAGE, CONFLICTING, SUPERSEDED, LANGUAGE_NOT_SERVED})
