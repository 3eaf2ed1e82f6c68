"""Profiles of load, plans and results of the process that sends it: two files of JSON."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_serving.artifacts.store import write_json

_FRAMES = ("{}", "Please tell me: {}", "{} Thanks in advance.", "I would like to know: {}")
MOST_WORDINGS = len(_FRAMES)
NUMBERED_SHARE = 0.1
"""Of the requests of a load, those with a numbered question."""


def worded(questions: Sequence[str], count: int) -> tuple[str, ...]:
    """Return each question in `count` wordings, at most `MOST_WORDINGS`; the first one is the question itself."""
    return tuple(frame.format(question) for question in questions for frame in _FRAMES[:count])


def numbered(question: str, dice: random.Random) -> str:
    """Return the question with a number of its own."""
    return f"{question} (case {dice.randrange(10**9)})"


ASK, STREAM, SEARCH = "ask", "stream", "search"


@dataclass(frozen=True)
class LoadStage:
    """So many clients for so many seconds."""

    clients: int
    seconds: float


@dataclass(frozen=True)
class LoadProfile:
    """A kind of load.

    Attributes:
        stages: passed through in their order, and begun again while time is left.
        pause_s: seconds between an answer and the client's next request, on average.
        doors: of a client's requests, the share that goes through each door.
        tenants: how many tenants the clients belong to, in turns.
    """

    name: str
    stages: tuple[LoadStage, ...]
    pause_s: float = 0.0
    doors: Mapping[str, float] = field(default_factory=lambda: {ASK: 1.0})
    tenants: int = 1

    def clients_at(self, seconds: float) -> int:
        """Return how many clients ask at a moment, counted from the beginning."""
        place = seconds % sum(stage.seconds for stage in self.stages)
        for stage in self.stages:
            place -= stage.seconds
            if place < 0:
                return stage.clients
        return self.stages[-1].clients

    def with_clients(self, clients: int) -> LoadProfile:
        """Return the same with so many clients in its fullest stage, the others in proportion."""
        most = max(stage.clients for stage in self.stages)
        stages = [replace(stage, clients=max(1, round(stage.clients * clients / most))) for stage in self.stages]
        return replace(self, stages=tuple(stages))


_ALWAYS = 3_600.0

PROFILES: Mapping[str, LoadProfile] = {
    profile.name: profile
    for profile in (
        LoadProfile("steady", (LoadStage(8, _ALWAYS),)),
        LoadProfile("burst", (LoadStage(2, 10), LoadStage(32, 5)), pause_s=0.1),
        LoadProfile("streaming", (LoadStage(8, _ALWAYS),), doors={STREAM: 1.0}),
        LoadProfile("mixed", (LoadStage(9, _ALWAYS),), 0.05, {ASK: 0.5, STREAM: 0.2, SEARCH: 0.3}, tenants=3),
        LoadProfile("search", (LoadStage(8, _ALWAYS),), doors={SEARCH: 1.0}),
    )
}


MOST_UNPROVED = 1_000
"""Different answers to new questions, of one run, that are compared with the pages."""


@dataclass(frozen=True)
class Plan:
    """A profile and its target.

    Attributes:
        requests: the number after which it ends; 0: after `seconds` alone.
        expected: the calm server's answers (`expected.Expected.known`).
        results: the file that is written at the end.
    """

    profile: LoadProfile
    seconds: float
    requests: int
    tenants: tuple[str, ...]
    tokens: dict[str, str]
    questions: tuple[str, ...]
    expected: dict[str, list[str]]
    results: str

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Plan:
        content = json.loads(path.read_text(encoding="utf-8"))
        stages = tuple(LoadStage(**stage) for stage in content["profile"]["stages"])
        return cls(**{**content, "profile": LoadProfile(**{**content["profile"], "stages": stages})})


@dataclass
class LoadResults:
    """Outcomes of all requests."""

    ms: list[float] = field(default_factory=list)
    doors: list[str] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)  # of streams: their first event
    faults: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)  # the first few
    unproved: dict[str, dict[str, Any]] = field(default_factory=dict)  # by substance: one answer, and its asker
    began: float = 0.0  # of the first request, by the clock that never goes back
    ended: float = 0.0

    def add(self, door: str, ms: float, fault: str, first_ms: float | None = None) -> None:
        self.ended = time.monotonic()
        self.began = self.began or self.ended - ms / 1000
        self.ms.append(ms)
        self.doors.append(door)
        if fault:
            self.faults[fault] += 1
        if first_ms is not None:
            self.first_ms.append(first_ms)

    def keep_unproved(self, tenant: str, question: str, payload: dict[str, Any], key: str, is_flagged: bool) -> None:
        """Keep an answer that is to be compared with the pages: of equal ones the first, of those without a flag a
        bounded number."""
        name = f"{tenant} {key}"
        if is_flagged or len(self.unproved) < MOST_UNPROVED:
            self.unproved.setdefault(name, {"tenant": tenant, "question": question, "answer": payload, "count": 0})
        if (entry := self.unproved.get(name)) is not None:
            entry["count"] += 1

    def prove(self, fault_of: Callable[[str, dict[str, Any]], str]) -> None:
        """Count each kept answer as degraded or wrong, by its tenant and its content; those beyond stay unproved."""
        for entry in self.unproved.values():
            fault = fault_of(entry["tenant"], entry["answer"])
            self.verdicts["unproved"] -= entry["count"]
            self.verdicts["wrong" if fault else "proved"] += entry["count"]
            if fault:
                self.faults[f"wrong: {fault}"] += entry["count"]
                self.wrong.append({**entry, "fault": fault})
        self.unproved.clear()
        self.verdicts = +self.verdicts

    def write(self, path: Path) -> None:
        write_json(path, vars(self))

    @classmethod
    def read(cls, path: Path) -> LoadResults:
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**content, "faults": Counter(content["faults"]), "verdicts": Counter(content["verdicts"])})

    @property
    def per_s(self) -> float:
        return len(self.ms) / max(self.ended - self.began, 1e-9)

    @property
    def is_clean(self) -> bool:
        return bool(self.ms) and not self.faults and not self.wrong

    def figures(self) -> dict[str, Any]:
        """Return counts, rates and times."""
        errors = sum(self.faults.values())
        shown: dict[str, Any] = {
            "requests": len(self.ms),
            "seconds": round(self.ended - self.began, 1),
            "per_s": round(self.per_s, 1),
            "errors": errors,
            "error_rate": round(errors / max(1, len(self.ms)), 5),
            "faults": dict(self.faults),
            "answers": dict(self.verdicts),
            "wrong_answers": self.verdicts["wrong"],
            "ms": {
                door: quantiles([ms for ms, one in zip(self.ms, self.doors, strict=True) if one == door])
                for door in sorted(set(self.doors))
            },
        }
        if self.first_ms:
            shown["first_event_ms"] = quantiles(self.first_ms)
        return shown


def quantiles(ms: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th and 99th percentiles, and the longest."""
    ordered = sorted(ms)
    at = {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in _SHARES.items()}
    return {name: round(value, 1) for name, value in {**at, "longest": ordered[-1]}.items()}


_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
