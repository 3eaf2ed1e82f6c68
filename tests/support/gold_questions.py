"""Gold questions about the small wiki."""

from __future__ import annotations

from evals.evaluation.gold import GoldQuestion

LOGS = GoldQuestion("logs", "How many hours does a broker keep logs?", True, frozenset({"12"}), ("for 168 hours",))
WON = GoldQuestion("won", "Who won the football match in Lisbon?", False)
SALARY = GoldQuestion(
    "salary",
    "What salary bonus does the broker team earn?",
    True,
    frozenset({"14"}),
    ("4,000 euros",),
    groups=frozenset({"hr"}),
)
