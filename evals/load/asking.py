"""Clients that ask without an end while something fails, and what became of each request."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from evals.load.expected import ExpectedAnswers, degraded
from evals.load.installation import PATHS, BuiltInstallation, body_of, calm_answers
from evals.load.proofs import AskerProofs

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
