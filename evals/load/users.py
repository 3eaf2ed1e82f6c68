"""A locustfile: clients of a profile. `python -m locust -f evals/load/users.py --headless --plan FILE -H URL`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from locust import LoadTestShape, events, task
from locust.contrib.fasthttp import FastHttpUser

from evals.load.installation import PATHS, ExpectedAnswers, body_of, degraded, substance
from evals.load.plan import ASK, NUMBERED_SHARE, SEARCH, STREAM, LoadResults, Plan, numbered

_TIMEOUT_S = 120.0
_NUMBERS = count()


class LoadState:
    """This process's parameters and results."""

    plan: Plan
    expected: ExpectedAnswers
    results: LoadResults


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _(parser: Any) -> None:
    parser.add_argument("--plan", required=True, help="what is to be done, as evals.load writes it")


@events.init.add_listener  # type: ignore[untyped-decorator]
def _begin(environment: Any, **_: Any) -> None:
    LoadState.plan = Plan.read(Path(environment.parsed_options.plan))
    LoadState.expected = ExpectedAnswers(LoadState.plan.expected)
    LoadState.results = LoadResults()


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    LoadState.results.write(Path(LoadState.plan.results))


class Stages(LoadTestShape):
    """The profile's stages until its time is over, or enough requests were made."""

    def tick(self) -> tuple[int, float] | None:
        plan, passed = LoadState.plan, self.get_run_time()  # type: ignore[no-untyped-call]
        if passed >= plan.seconds or (plan.requests and len(LoadState.results.ms) >= plan.requests):
            return None
        clients = plan.profile.clients_at(passed)
        return clients, float(clients)


class Client(FastHttpUser):
    """One client with one connection: it sends a question, reads the whole answer, compares it, and waits."""

    connection_timeout = network_timeout = _TIMEOUT_S

    def on_start(self) -> None:
        plan, number = LoadState.plan, next(_NUMBERS)
        self.tenant = plan.tenants[number % len(plan.tenants)]
        self.token = plan.tokens.get(self.tenant)
        self.dice = random.Random(number)
        self.questions = self._shuffled()

    def _shuffled(self) -> Iterator[str]:
        while True:
            yield from self.dice.sample(LoadState.plan.questions, len(LoadState.plan.questions))

    def wait_time(self) -> float:
        return self.dice.expovariate(1 / LoadState.plan.profile.pause_s) if LoadState.plan.profile.pause_s else 0.0

    @task
    def request(self) -> None:
        doors = LoadState.plan.profile.doors
        door = self.dice.choices([*doors], [*doors.values()])[0]
        question = next(self.questions)
        if self.dice.random() < NUMBERED_SHARE:
            question = numbered(question, self.dice)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        began = time.perf_counter()
        path, body = PATHS[SEARCH if door == SEARCH else ASK], body_of(door, question)
        with self.client.post(
            path, json=body, headers=headers, name=door, stream=door == STREAM, catch_response=True
        ) as response:
            fault, first_ms = self._read(door, question, response, began)
            if fault:
                response.failure(fault)
            else:
                response.success()
        LoadState.results.add(door, (time.perf_counter() - began) * 1000, fault, first_ms)

    def _read(self, door: str, question: str, response: Any, began: float) -> tuple[str, float | None]:
        """Return the fault of an answer, if any, and the milliseconds to a stream's first event."""
        if response.status_code != 200:
            return f"HTTP {response.status_code} {response.error or ''}".strip(), None
        try:
            payload, first_ms = _streamed(response, began) if door == STREAM else (response.json(), None)
        except Exception as error:  # of a connection, in gevent's own kinds
            return f"{type(error).__name__}: {error}", None
        kind = SEARCH if door == SEARCH else ASK
        verdict = LoadState.expected.verdict((self.tenant, kind, question), payload)
        LoadState.results.verdicts[verdict] += 1
        if verdict == "unproved":
            LoadState.results.keep_unproved(self.tenant, question, payload, substance(payload), bool(degraded(payload)))
        if verdict in ("same", "degraded", "unproved"):
            return "", first_ms
        if verdict == "wrong" and len(LoadState.results.wrong) < 5:
            LoadState.results.wrong.append({"tenant": self.tenant, "question": question, "answer": payload})
        return verdict, first_ms


def _streamed(response: Any, began: float) -> tuple[dict[str, Any], float]:
    """Read events to the last one, which is the answer.

    Raises:
        ValueError: it is none.
    """
    first_ms, name, payload = 0.0, "", {}
    while line := response.stream.readline(b"\n"):
        text = line.decode()
        first_ms = first_ms or (time.perf_counter() - began) * 1000
        if text.startswith("event: "):
            name = text.removeprefix("event: ").strip()
        elif text.startswith("data: ") and name in ("answer", "error"):
            payload = json.loads(text.removeprefix("data: "))
    if name != "answer":
        raise ValueError(f"a stream ended with {name or 'nothing'}: {payload.get('code', '')}")
    return payload, first_ms
