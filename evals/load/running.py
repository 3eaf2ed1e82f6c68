"""Runs of a profile: locust in a process of its own, against a server that was calm before.

Belongs here: one run, one client beside many, a long one. Does not belong here: arguments (`__main__`), clients
(`users`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from evals.bench.clients import Server
from evals.load.expected import Expected
from evals.load.installation import ROOT, Installation, calm_answers
from evals.load.memory import growth, sampled
from evals.load.plan import Plan, Results
from evals.load.profiles import Profile

_USERS = Path(__file__).with_name("users.py")
_SAMPLES = 240
_ENDS_S = 180
"""Seconds that the last answers and locust's end may take."""


@dataclass
class Target:
    """A server, what is asked of it, and its processes where it was started for the load."""

    url: str
    installation: Installation
    server: Server | None

    @cached_property
    def expected(self) -> Expected:
        """What it says while nobody else asks: asked for before the first load."""
        return calm_answers(self.url, self.installation)


def run(target: Target, profile: Profile, seconds: float, requests: int = 0) -> Results:
    """Put the load of a profile on a server for so long, or for so many requests."""
    asked, expected = target.installation, target.expected
    with tempfile.TemporaryDirectory(prefix="citelock-load-") as folder:
        plan, results = Path(folder, "plan.json"), Path(folder, "results.json")
        Plan(
            profile, seconds, requests, asked.tenants, asked.tokens, asked.questions, expected.known, str(results)
        ).write(plan)
        command = [sys.executable, "-m", "locust", "-f", str(_USERS), "--headless", "--only-summary", "-H", target.url]
        command += ["--plan", str(plan), "--exit-code-on-error", "0", "--loglevel", "ERROR"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + _ENDS_S)
        if not results.is_file():
            raise RuntimeError(f"locust ended without results: {done.stderr.strip()[-2000:]}")
        return Results.read(results)


def scaling(target: Target, profile: Profile, clients: int, seconds: float, rounds: int) -> tuple[dict[str, Any], bool]:
    """One client and many in turns, because a shared machine changes its pace: rates, and the median of the ratios."""
    pairs: list[tuple[Results, Results]] = []
    run(target, profile.with_clients(clients), min(5, seconds))  # each process opens its model
    for _ in range(rounds):
        one, many = (run(target, profile.with_clients(count), seconds) for count in (1, clients))
        pairs.append((one, many))
    found = {
        "one_client": _rates([one for one, _ in pairs]),
        "many_clients": _rates([many for _, many in pairs]),
        "ratio": round(median(many.per_s / one.per_s for one, many in pairs), 2),
        "ratios": [round(many.per_s / one.per_s, 2) for one, many in pairs],
    }
    return found, all(results.is_clean for pair in pairs for results in pair)


def _rates(found: list[Results]) -> dict[str, Any]:
    errors = sum(sum(results.faults.values()) for results in found)
    return {
        "per_s": round(median(results.per_s for results in found), 1),
        "requests": sum(len(results.ms) for results in found),
        "errors": errors,
    }


def soak(target: Target, profile: Profile, seconds: float) -> tuple[dict[str, Any], bool]:
    """The load of a profile for long, with the server's memory over time; good where that is flat."""
    resident = _resident(target)
    run(target, profile, min(10, seconds / 4))
    with sampled(resident, max(0.5, seconds / _SAMPLES)) as samples:
        results = run(target, profile, seconds)
    memory = growth(samples)
    return {**results.figures(), "memory": memory}, results.is_clean and bool(memory["flat"])


def _resident(target: Target) -> Callable[[], float]:
    if target.server is None:
        raise RuntimeError("--soak reads the memory of a server that it started: leave --url out")
    return target.server.resident_mb
