"""Figures of a fault: wrong answers, errors during it and after it, time to recovery; as JSON and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.load.asking import TimedRequest
from evals.load.plan import quantiles

RECOVERED_BY = 10
"""Answers in a row, as the calm server gives them, by which a server has recovered."""


@dataclass(frozen=True)
class Outcome:
    """Count the outcomes of requests before, during and after a fault.

    Attributes:
        injected: when it began, as `TimedRequest.began`; `healed`: when it ended.
        facts: what else was looked at, by name; one that is False is a failure.
    """

    name: str
    requests: Sequence[TimedRequest]
    injected: float
    healed: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wrong(self) -> list[TimedRequest]:
        return [request for request in self.requests if request.verdict == "wrong"]

    @property
    def recovery_s(self) -> float | None:
        """Seconds from the end of the fault to the last of the first ten answers in a row that are the calm
        server's."""
        in_a_row = 0
        for request in sorted(self.requests, key=lambda request: request.ended):
            if request.began >= self.healed:
                in_a_row = in_a_row + 1 if request.verdict == "same" else 0
                if in_a_row == RECOVERED_BY:
                    return round(request.ended - self.healed, 1)
        return None

    @property
    def is_good(self) -> bool:
        calm = self._counted([request for request in self.requests if request.ended < self.injected])
        facts = all(value is not False for value in self.facts.values())
        return not self.wrong and self.recovery_s is not None and not calm["errors"] and facts

    def figures(self) -> dict[str, Any]:
        """Return all figures; a request that was under way when the fault began counts as during it."""
        before = [request for request in self.requests if request.ended < self.injected]
        during = [one for one in self.requests if one.ended >= self.injected and one.began < self.healed]
        after = [request for request in self.requests if request.began >= self.healed]
        return {
            "fault": self.name,
            "good": self.is_good,
            "requests": len(self.requests),
            "wrong_answers": len(self.wrong),
            "fault_s": round(self._lasted, 1),
            "recovery_s": self.recovery_s,
            "calm": self._counted(before),
            "during": self._counted(during),
            "after": self._counted(after),
            "facts": dict(self.facts),
            "wrong": [{"asked": one.asked, "why": one.fault, "answer": one.payload} for one in self.wrong[:3]],
        }

    @property
    def _lasted(self) -> float:
        return self.healed - self.injected

    @staticmethod
    def _counted(requests: Sequence[TimedRequest]) -> dict[str, Any]:
        verdicts = Counter(request.verdict for request in requests)
        errors = verdicts["error"] + verdicts["refused"]
        return {
            "requests": len(requests),
            "errors": errors,
            "error_rate": round(errors / max(1, len(requests)), 4),
            "answers": dict(verdicts),
            "faults": dict(Counter(request.fault for request in requests if request.verdict == "error")),
            "flags": dict(Counter(flag for request in requests for flag in request.flags)),
            "ms": quantiles([request.ms for request in requests]) if requests else None,
        }


def table(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of several faults as a Markdown table."""
    lines = [
        "| fault | requests | wrong answers | errors during it | degraded during it | p95 before, during | longest "
        "| errors after | recovery |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *map(_row, figures)])


def _row(one: Mapping[str, Any]) -> str:
    if "skipped" in one:
        return f"| {one['fault']} | skipped: {one['skipped']} | | | | | | | |"
    calm, during, after = one["calm"], one["during"], one["after"]
    share = during["answers"].get("degraded", 0) / max(1, during["requests"])
    late = [f"{part['ms']['p95'] / 1000:.1f}" if part["ms"] else "–" for part in (calm, during)]
    longest = f"{during['ms']['longest'] / 1000:.1f} s" if during["ms"] else "–"
    recovery = "never" if one["recovery_s"] is None else f"{one['recovery_s']} s"
    cells = [
        one["fault"],
        f"{one['requests']:,}",
        one["wrong_answers"],
        f"{during['errors']} of {during['requests']} ({during['error_rate']:.1%})",
        f"{share:.0%}",
        f"{late[0]}, {late[1]} s",
        longest,
        f"{after['errors']} of {after['requests']}",
        recovery,
    ]
    return f"| {' | '.join(map(str, cells))} |"
