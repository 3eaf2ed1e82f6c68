"""When a question that only names something is asked back, learnt on data: by which lead the likeliest page is meant.

Belongs here: what asking back costs, the lead that costs least, how often it is asked back and offers the right page.
Does not belong here: deciding (`rag_serving.retrieval.clarity`), how confident an answer is (`calibrate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from evals.evaluation.evaluate import Judged
from rag_serving.records.decisions import Decision

# Against a page that is told and is not the one that was meant: an answer with one more question, and a question back
# that offers only other pages.
ASKED_BACK, ASKED_IN_VAIN = 0.25, 0.75
OFFERED = 2  # options of a question back
_FEWEST = 8  # questions that name something, of which any is learnt


@dataclass(frozen=True)
class Named:
    """A question that names something: how far the likeliest page is ahead, and where the right one stands."""

    lead: float  # (best - second) / best
    is_asked_back: bool
    is_first: bool  # the likeliest page is a right one
    is_offered: bool  # a right page is among the first two

    def cost(self, min_clear: float) -> float:
        """Return what it costs where a lead of this much is asked for."""
        if self.lead >= min_clear:
            return 0.0 if self.is_first else 1.0
        return ASKED_BACK if self.is_offered else ASKED_IN_VAIN


@dataclass(frozen=True)
class Clearness:
    """Measures of how clear the questions of a set are that name something; `questions`: how many it has."""

    questions: int
    named: tuple[Named, ...]

    @property
    def min_clear(self) -> float | None:
        """Return the lead that costs least, the middle of those that do; None where too few name something."""
        if len(self.named) < _FEWEST:
            return None
        leads = sorted({0.0, *(each.lead for each in self.named), 1.0})
        levels = [0.0, *((low + high) / 2 for low, high in pairwise(leads))]
        costs = [sum(each.cost(level) for each in self.named) for level in levels]
        return round(levels[costs.index(min(costs))], 4)

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; shares are None where there is nothing to share."""
        back = [each for each in self.named if each.is_asked_back]
        return {
            "named": len(self.named),
            "asked_back": len(back),
            "share_asked_back": round(len(back) / self.questions, 4) if self.questions else None,
            "offers_the_right_page": round(sum(each.is_offered for each in back) / len(back), 4) if back else None,
        }


def clearness(judged: Sequence[Judged]) -> Clearness:
    """Return how clear the answerable questions were that several pages, or one, are called by."""
    named = [_named(case, case.answer.decision) for case in judged if case.gold.pages and case.answer.decision]
    return Clearness(len(judged), tuple(each for each in named if each))


def _named(case: Judged, decision: Decision | None) -> Named | None:
    if decision is None or decision.is_several or not decision.contenders:
        return None
    right = [contender.page_id in case.gold.pages for contender in decision.contenders[:OFFERED]]
    return Named(decision.confidence, decision.action not in ("answer", "unsure"), right[0], any(right))
