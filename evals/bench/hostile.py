"""Measure the cost of 200 hostile connections to 8 good clients: `python -m evals.bench.hostile` prints JSON.

Good clients query a server of the sample wiki, in turns with and without attackers, because other load on the machine
varies. The ratio is that of the medians of the turns' 95th percentiles.

Belongs here: the server, good clients, turns, the report. Does not belong here: the attackers (`attackers`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median
from typing import Any

from evals.bench.clients import serving
from evals.bench.machine import machine
from evals.bench.nginx import behind_nginx
from rag_serving.config.loading import Config, load_config

QUESTIONS = (
    "How often does a planning cycle start?",
    "Does it help to raise HARBOR_DB_POOL_SIZE above 48?",
    "What does gate.no_show_limit mean?",
    "How many pins can a port set?",
    "How long can a release be rolled back?",
    "What should I do about HBL-4007?",
)
TENANT = "demo"
_TOKENS = {"good": {"tenant": TENANT, "user": "ann"}, "ill": {"tenant": TENANT, "user": "eve"}}
_SETTLE_S = 2.0


@dataclass
class HostileTurn:
    """Answers that good clients received in one turn, and how long each took."""

    milliseconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def at(self, share: float) -> float:
        """Return the quantile of the times."""
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def good_clients(
    port: int, seconds: float, clients: int, pause_s: float, questions: Sequence[str] = QUESTIONS
) -> HostileTurn:
    """Let so many clients ask one question after the other for so long, each on a connection of its own."""
    turn, until = HostileTurn(), time.monotonic() + seconds

    def ask(number: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Content-Type": "application/json", "Authorization": "Bearer good"}
        while time.monotonic() < until:
            number += 1
            body = json.dumps({"question": questions[number % len(questions)]})
            started = time.perf_counter()
            try:
                connection.request("POST", "/v1/ask", body, headers)
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    turn.failures[str(response.status)] += 1
            except (OSError, HTTPException) as error:
                turn.failures[type(error).__name__] += 1
                connection.close()
            turn.milliseconds.append((time.perf_counter() - started) * 1000)
            time.sleep(pause_s)
        connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return turn


@contextmanager
def attacked(port: int, count: int, token: str) -> Iterator[None]:
    """So many attackers, in a process of their own; with a token some of them ask questions."""
    environment = {**os.environ, "ATTACKER_TOKEN": token}
    with subprocess.Popen(
        [sys.executable, "-m", "evals.bench.attackers", str(port), str(count)], env=environment
    ) as process:
        try:
            time.sleep(_SETTLE_S)
            yield
        finally:
            process.kill()


def measure(port: int, chosen: argparse.Namespace) -> dict[str, Any]:
    """Good clients without attackers and with them, so many times each."""

    def turn() -> HostileTurn:
        return good_clients(port, chosen.seconds, chosen.clients, chosen.pause)

    good_clients(port, min(5, chosen.seconds), chosen.clients, 0)  # models and threads are there
    quiet, beset = [], []
    for _ in range(chosen.rounds):
        quiet.append(turn())
        with attacked(port, chosen.hostile, "" if chosen.strangers else "ill"):
            beset.append(turn())
        time.sleep(_SETTLE_S)
    return {
        "without": figures(quiet),
        "with": figures(beset),
        "p95_ratio": ratio(beset, quiet),
    }


def ratio(beset: Sequence[HostileTurn], quiet: Sequence[HostileTurn]) -> float:
    """Return by how much the median of the 95th percentiles grew."""
    return round(median(turn.at(0.95) for turn in beset) / median(turn.at(0.95) for turn in quiet), 2)


def figures(turns: Sequence[HostileTurn]) -> dict[str, Any]:
    """Return answers, failures and times of turns of one kind."""
    return {
        "answers": sum(len(turn.milliseconds) for turn in turns),
        "failures": dict(sum((turn.failures for turn in turns), Counter())),
        "p50_ms": round(median(turn.at(0.5) for turn in turns), 1),
        "p95_ms": round(median(turn.at(0.95) for turn in turns), 1),
        "p95_ms_of_turns": [round(turn.at(0.95), 1) for turn in turns],
    }


@contextmanager
def sample(home: Path | None) -> Iterator[Config]:
    """Yield the sample wiki, built in a folder of its own unless it is there."""
    with tempfile.TemporaryDirectory() as folder:
        target = home or Path(folder)
        environment = {**os.environ, "CITELOCK_HOME": str(target)}
        if not (target / "tenants" / TENANT / "current").exists():
            command = "from rag_serving.cli.main import main; main()"
            subprocess.run([sys.executable, "-c", command, "build"], env=environment, check=True, stdout=sys.stderr)
        config = load_config(Path("config/app.yaml"))
        yield config.model_copy(update={"home": target})


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.hostile", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hostile", type=int, default=200, help="attackers, of all kinds in turn")
    parser.add_argument("--strangers", action="store_true", help="none of the attackers has a token")
    parser.add_argument("--proxy", action="store_true", help="with nginx between, as deploy/proxy/nginx.conf says")
    parser.add_argument("--clients", type=int, default=8, help="good clients")
    parser.add_argument("--rounds", type=int, default=5, help="turns with attackers, and as many without")
    parser.add_argument("--seconds", type=float, default=10, help="of a turn")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between an answer and the next question")
    parser.add_argument("--home", type=Path, help="folder in which the sample is built, or was")
    chosen = parser.parse_args()
    os.environ["CITELOCK_TOKENS"] = json.dumps(_TOKENS)
    section = {"auth": "tokens", "trusted_proxies": ["127.0.0.1"]}
    with sample(chosen.home) as config, serving(config, 1, serving=section) as port:
        told = machine()
        with behind_nginx(port) if chosen.proxy else nullcontext(port) as asked_port:
            found = measure(asked_port, chosen)
    asked = {name: getattr(chosen, name) for name in ("hostile", "strangers", "proxy", "clients", "pause", "seconds")}
    print(json.dumps({**asked, **found, "machine": told}, indent=2))


if __name__ == "__main__":
    main()
