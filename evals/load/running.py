"""Runs of a profile: locust in a process of its own, against a server that was calm before.

Only anonymous memory is judged: pages of mapped files are counted as resident, grow with every file that is read, and
are given back when another program needs the memory.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from evals.bench.clients import RunningServer, memory_mb, with_children
from evals.load.installation import PATHS, ROOT, AskerProofs, BuiltInstallation, ExpectedAnswers, calm_answers
from evals.load.plan import LoadProfile, LoadResults, Plan

_USERS = Path(__file__).with_name("users.py")
_SAMPLES = 240
_ENDS_S = 180
"""Seconds that the last answers and locust's end may take."""


@dataclass
class LoadTarget:
    """A server, its questions, and its processes if it was started for the load."""

    url: str
    installation: BuiltInstallation
    server: RunningServer | None

    doors: tuple[str, ...] = tuple(PATHS)

    @cached_property
    def expected(self) -> ExpectedAnswers:
        """The answers without load, collected before the first load."""
        return calm_answers(self.url, self.installation, self.doors)

    def prove(self, results: LoadResults) -> None:
        """Compare the answers that the calm server did not give with the pages that their askers may read."""
        with httpx.Client(base_url=self.url, timeout=60) as client:
            asked = self.installation
            proofs = {tenant: AskerProofs(client, asked.headers(tenant)) for tenant in asked.tenants}
            results.prove(lambda tenant, payload: proofs[tenant].fault(payload))


def run(target: LoadTarget, profile: LoadProfile, seconds: float, requests: int = 0) -> LoadResults:
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
        found = LoadResults.read(results)
    target.prove(found)
    return found


def scaling(
    target: LoadTarget, profile: LoadProfile, clients: int, seconds: float, rounds: int, at_least: float = 0.0
) -> tuple[dict[str, Any], bool]:
    """Run one client and many in turns, because a shared machine changes its pace; return the rates, the median of
    their ratios, and whether that is `at_least` so much and every request was answered."""
    pairs: list[tuple[LoadResults, LoadResults]] = []
    run(target, profile.with_clients(clients), min(5, seconds))  # each process opens its model
    for _ in range(rounds):
        one, many = (run(target, profile.with_clients(count), seconds) for count in (1, clients))
        pairs.append((one, many))
    found: dict[str, Any] = {
        "one_client": _rates([one for one, _ in pairs]),
        "many_clients": _rates([many for _, many in pairs]),
        "ratio": round(median(many.per_s / one.per_s for one, many in pairs), 2),
        "ratios": [round(many.per_s / one.per_s, 2) for one, many in pairs],
    }
    is_clean = all(results.is_clean for pair in pairs for results in pair)
    return {**found, "at_least": at_least}, is_clean and found["ratio"] >= at_least


def _rates(found: list[LoadResults]) -> dict[str, Any]:
    return {
        "per_s": round(median(results.per_s for results in found), 1),
        "requests": sum(len(results.ms) for results in found),
        "errors": sum(results.faults.total() for results in found),
    }


def soak(target: LoadTarget, profile: LoadProfile, seconds: float) -> tuple[dict[str, Any], bool]:
    """The load of a profile for long, with the server's memory over time; good if that is flat."""
    if target.server is None:
        raise RuntimeError("--soak reads the memory of a server that it started: leave --url out")
    run(target, profile, min(10, seconds / 4))
    with sampled(partial(anonymous_mb, target.server.process.pid), max(0.5, seconds / _SAMPLES)) as samples:
        results = run(target, profile, seconds)
    memory = growth(samples)
    return {**results.figures(), "memory": memory}, results.is_clean and bool(memory["flat"])


JUDGED_SHARE = 0.5
"""Of the samples, the last ones that are judged: before, models, threads and caches of bounded size are filling."""
MOST_MB_PER_HOUR = 30.0
NOISE_MB = 2.5
"""Growth that is within the noise of the allocator; it decides where less than five minutes are judged."""
_MOST_SAMPLES = 240

Sample = tuple[float, float]
"""Seconds since the beginning, megabytes."""


def anonymous_mb(process: int) -> float:
    """Return the megabytes that no file backs of a process and all that it started (Linux)."""
    return sum(memory_mb(number, "RssAnon") for number in with_children(process))


@contextmanager
def sampled(memory: Callable[[], float], every_s: float) -> Iterator[list[Sample]]:
    """Yield the samples that are taken while the block runs."""
    samples: list[Sample] = []
    ended, began = threading.Event(), time.monotonic()

    def take() -> None:
        while not ended.wait(every_s):
            samples.append((time.monotonic() - began, memory()))

    thread = threading.Thread(target=take, name="memory", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def growth(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the figures of samples in their order, and whether memory is flat.

    The slope is the median of the slopes between all pairs (Theil 1950, Sen 1968): a build or a garbage collection that
    shows in a few samples does not move it.

    Raises:
        ValueError: there are too few samples.
    """
    judged = _thinned(samples[int(len(samples) * (1 - JUDGED_SHARE)) :])
    if len(judged) < 3:
        raise ValueError("too few samples of memory; let the run take longer")
    slope = median((b - a) / (t - s) for (s, a), (t, b) in combinations(judged, 2))
    seconds = judged[-1][0] - judged[0][0]
    grown, allowed = slope * seconds, max(MOST_MB_PER_HOUR * seconds / 3600, NOISE_MB)
    return {
        "samples": len(samples),
        "judged_s": round(seconds),
        "first_mb": round(samples[0][1], 1),
        "median_mb": round(median(mb for _, mb in judged), 1),
        "most_mb": round(max(mb for _, mb in samples), 1),
        "slope_mb_per_hour": round(slope * 3600, 1),
        "grown_mb": round(grown, 2),
        "allowed_mb": round(allowed, 2),
        "flat": grown <= allowed,
        "over_time": [[round(at), round(mb, 1)] for at, mb in _thinned(samples, 30)],
    }


def _thinned(samples: Sequence[Sample], most: int = _MOST_SAMPLES) -> list[Sample]:
    """Return at most so many samples, evenly chosen, the last one among them."""
    step = max(1, -(-len(samples) // most))
    return list(reversed(samples[::-1][::step]))
