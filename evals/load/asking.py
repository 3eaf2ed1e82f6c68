"""Clients that ask without an end while something fails, and what became of each request."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from evals.load.installation import (
    PATHS,
    AskerProofs,
    BuiltInstallation,
    ExpectedAnswers,
    body_of,
    calm_answers,
    degraded,
)
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
        parts = {
            "calm": [one for one in self.requests if one.ended < self.injected],
            "during": [one for one in self.requests if one.ended >= self.injected and one.began < self.healed],
            "after": [one for one in self.requests if one.began >= self.healed],
        }
        return {
            "fault": self.name,
            "good": self.is_good,
            "requests": len(self.requests),
            "wrong_answers": len(self.wrong),
            "fault_s": round(self.healed - self.injected, 1),
            "recovery_s": self.recovery_s,
            **{name: self._counted(some) for name, some in parts.items()},
            "facts": dict(self.facts),
            "wrong": [{"asked": one.asked, "why": one.fault, "answer": one.payload} for one in self.wrong[:3]],
        }

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


CLIENTS = 3
PAUSE_S = 0.05
TIMEOUT_S = 120.0


@dataclass
class TimedRequest:
    """One request: its times, by a monotonic clock, and its outcome.

    Attributes:
        asked: tenant, entry point and question.
        fault: why there is no answer; empty if there is one.
        verdict: of `expected`, and `error` without an answer.
    """

    began: float
    ended: float
    asked: tuple[str, str, str]
    fault: str = ""
    payload: dict[str, Any] | None = None
    flags: list[str] = field(default_factory=list)
    verdict: str = "error"

    @property
    def ms(self) -> float:
        return (self.ended - self.began) * 1000


class Judge:
    """Keep what the calm server answers in each generation, and the pages that the asker may read."""

    def __init__(self, url: str, installation: BuiltInstallation) -> None:
        self._url, self._installation = url, installation
        self._expected: dict[str, ExpectedAnswers] = {}

    def learn(self) -> str:
        """Ask everything of the calm server; return the generation that it answered from."""
        with httpx.Client(base_url=self._url, timeout=TIMEOUT_S) as client:
            door, question = "search", self._installation.questions[0]
            headers = self._installation.headers(self._installation.tenants[0])
            response = client.post(PATHS[door], json=body_of(door, question), headers=headers)
            generation = str(response.raise_for_status().json()["generation"])
        if generation not in self._expected:
            self._expected[generation] = calm_answers(self._url, self._installation)
        return generation

    def judge(self, requests: Sequence[TimedRequest]) -> None:
        """Set the verdict of every request; an answer that nobody knows is compared with the pages."""
        with httpx.Client(base_url=self._url, timeout=TIMEOUT_S) as client:
            asked = self._installation
            proofs = {tenant: AskerProofs(client, asked.headers(tenant)) for tenant in asked.tenants}
            for request in requests:
                if request.payload is not None:
                    self._judge(request, request.payload, proofs[request.asked[0]])

    def _judge(self, request: TimedRequest, payload: dict[str, Any], proofs: AskerProofs) -> None:
        known = self._expected.get(payload.get("generation") or "") or next(iter(self._expected.values()))
        request.verdict = known.verdict(request.asked, payload)
        if request.verdict == "unproved":
            request.fault = proofs.fault(payload)
            request.verdict = "wrong" if request.fault else "degraded"


class AskingThreads:
    """Clients in threads of this process."""

    def __init__(self, url: str, installation: BuiltInstallation) -> None:
        self._url, self._installation = url, installation
        self._ended = threading.Event()
        self.requests: list[TimedRequest] = []

    def run(self, number: int) -> None:
        """Ask until the end, as one client with one connection."""
        dice, asked = random.Random(number), self._installation
        with httpx.Client(base_url=self._url, timeout=TIMEOUT_S) as client:
            while not self._ended.wait(PAUSE_S):
                choice = (dice.choice(asked.tenants), dice.choice([*PATHS]), dice.choice(asked.questions))
                self.requests.append(self._one(client, choice))

    def _one(self, client: httpx.Client, asked: tuple[str, str, str]) -> TimedRequest:
        tenant, door, question = asked
        began = time.monotonic()
        fault, payload = "", None
        try:
            headers = self._installation.headers(tenant)
            response = client.post(PATHS[door], json=body_of(door, question), headers=headers)
            if response.is_success:
                payload = response.json()
            else:
                fault = f"HTTP {response.status_code} {response.text[:100]}"
        except (httpx.HTTPError, ValueError) as error:
            fault = type(error).__name__
        return TimedRequest(began, time.monotonic(), asked, fault, payload, degraded(payload) if payload else [])

    def is_well(self, since: float, count: int = 10) -> bool:
        """Return whether the last requests, all begun since a moment, were answered and lacked nothing."""
        last = [request for request in self.requests[-count:] if request.began >= since]
        return len(last) == count and not any(request.fault or request.flags for request in last)

    def stop(self) -> None:
        self._ended.set()


@contextmanager
def asking(url: str, installation: BuiltInstallation, clients: int = CLIENTS) -> Iterator[AskingThreads]:
    """Yield clients that ask while the block runs."""
    group = AskingThreads(url, installation)
    threads = [threading.Thread(target=group.run, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield group
    finally:
        group.stop()
        for thread in threads:
            thread.join(TIMEOUT_S + 5)
