"""Measure the cost of one misbehaving tenant to nine others: `python -m evals.bench.noisy_tenant` prints JSON.

A server of ten tenants, each with the sample wiki, gets queries from one client of each of nine of them, in turns with
and without a flood by the tenth. The tenth queries on 16 connections without a pause, uploads files on two more, and
has its uploads built meanwhile. The ratio is that of the medians of the turns' 95th percentiles.

Belongs here: ten tenants, the flood, its losses. Does not belong here: hostile connections (`hostile`).
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from evals.bench.clients import CITELOCK, RunningServer, started
from evals.bench.hostile import QUESTIONS, HostileTurn, figures, ratio
from evals.bench.machine import machine
from rag_serving.artifacts.store import write_json

TENANTS = [f"team{number}" for number in range(10)]
NOISY, OTHERS = TENANTS[-1], TENANTS[:-1]
FLOODING, UPLOADING = 16, 2
_SAMPLE = Path("sample").resolve()
_SETTLE_S = 2.0
_JSON = {"Content-Type": "application/json"}
_BORDER = "----file"
_RSS_WARM = 1_000


@dataclass
class Flood:
    """The requests of the tenth tenant, by the status of the responses, and the promised uploads."""

    statuses: Counter[str] = field(default_factory=Counter)
    waits_told: int = 0  # refusals with Retry-After
    accepted: list[str] = field(default_factory=list)  # ids of documents


def settings(home: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration of ten tenants with the limits that were chosen."""
    sources: dict[str, Any] = {}
    for tenant in TENANTS:
        dump = {"kind": "confluence_dump", "tenant": tenant, "path": str(_SAMPLE / "ENG"), "readers": "everyone"}
        sources |= {f"eng_{tenant}": dump, f"uploads_{tenant}": {"kind": "files", "tenant": tenant}}
    index = {
        "kind": "postgres",
        "url": f"postgresql://citelock_app@{chosen.database}",
        "writer_url": f"postgresql://citelock_writer@{chosen.database}",
        "owner_url": f"postgresql://postgres@{chosen.database}",
    }
    limits = {"rate_limit_per_minute": chosen.limit}
    if chosen.at_once is not None:
        limits["requests_at_once"] = chosen.at_once
    return {
        "home": str(home),
        "tenants": dict.fromkeys(TENANTS, limits),
        "sources": sources,
        "serving": {"auth": "tokens"},
        **({"index": index} if chosen.database else {}),
    }


def tokens() -> str:
    """Return CITELOCK_TOKENS of one editor of each tenant; the tenant's name is the token."""
    return json.dumps({tenant: {"tenant": tenant, "user": "ann", "roles": ["editor"]} for tenant in TENANTS})


def quiet_clients(port: int, seconds: float, pause_s: float) -> HostileTurn:
    """Let a client of each other tenant ask one question after the other for so long."""
    turn, until = HostileTurn(), time.monotonic() + seconds

    def ask(tenant: str, number: int) -> None:
        with _connection(port) as connection:
            while time.monotonic() < until:
                number += 1
                began = time.perf_counter()
                status, _, _ = _asked(connection, tenant, QUESTIONS[number % len(QUESTIONS)])
                turn.milliseconds.append((time.perf_counter() - began) * 1000)
                if status != "200":
                    turn.failures[status] += 1
                time.sleep(pause_s)

    _together([partial(ask, tenant, number) for number, tenant in enumerate(OTHERS)])
    return turn


@contextmanager
def flooded(port: int, flood: Flood) -> Iterator[None]:
    """Let the tenth tenant query and upload as fast as it is answered while the block runs."""
    ended = threading.Event()

    def ask(number: int) -> None:
        with _connection(port) as connection:
            while not ended.is_set():
                number += 1
                status, wait, _ = _asked(connection, NOISY, f"{QUESTIONS[number % len(QUESTIONS)]} {number}")
                flood.statuses[f"ask {status}"] += 1
                flood.waits_told += bool(wait)

    def upload(number: int) -> None:
        with _connection(port) as connection:
            while not ended.is_set():
                number += UPLOADING
                status, wait, content = _uploaded(connection, number)
                flood.statuses[f"upload {status}"] += 1
                flood.waits_told += bool(wait)
                if status == "202":
                    flood.accepted.append(json.loads(content)["document_id"])

    calls = [partial(ask, 1000 * number) for number in range(FLOODING)]
    calls += [partial(upload, 1_000_000 + number) for number in range(UPLOADING)]
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(_SETTLE_S)
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@contextmanager
def building(config: Path) -> Iterator[None]:
    """Rebuild the tenth tenant's uploads again and again while the block runs, with less priority."""
    command = [sys.executable, "-c", "import os; os.nice(10); from rag_serving.cli.main import main; main()"]
    ended = threading.Event()

    def build() -> None:
        while not ended.wait(0.2):
            build = [*command, "build", f"uploads_{NOISY}", "--config", str(config)]
            subprocess.run(build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    thread = threading.Thread(target=build)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure(server: RunningServer, config: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of the others without and with the flood, the flood's responses, and its losses."""
    quiet_clients(server.port, 3, 0)  # every tenant's generation is open
    turns: dict[str, list[HostileTurn]] = {"without": [], "flood": [], "flood_and_build": []}
    flood = Flood()
    for _ in range(chosen.rounds):
        turns["without"].append(quiet_clients(server.port, chosen.seconds, chosen.pause))
        with flooded(server.port, flood):
            turns["flood"].append(quiet_clients(server.port, chosen.seconds, chosen.pause))
        with building(config), flooded(server.port, flood):
            turns["flood_and_build"].append(quiet_clients(server.port, chosen.seconds, chosen.pause))
        time.sleep(_SETTLE_S)
    return {
        **{name: figures(found) for name, found in turns.items()},
        "p95_ratio": ratio(turns["flood"], turns["without"]),
        "p95_ratio_with_build": ratio(turns["flood_and_build"], turns["without"]),
        "told_to_the_flood": dict(flood.statuses),
        "refusals_with_retry_after": flood.waits_told,
        "documents": {"accepted": len(flood.accepted), "lost": len(_lost(server.port, flood.accepted))},
    }


def resident(server: RunningServer, count: int) -> dict[str, Any]:
    """Return the resident megabytes of the server's processes after 1,000 questions and after so many."""
    marks: dict[str, float] = {}
    failures: Counter[str] = Counter()
    asked = 0
    for upto in (_RSS_WARM, count):
        share = (upto - asked) // len(OTHERS) + 1

        def ask(tenant: str, share: int = share) -> None:
            with _connection(server.port) as connection:
                for number in range(share):
                    while (told := _asked(connection, tenant, QUESTIONS[number % len(QUESTIONS)]))[0] == "429":
                        time.sleep(float(told[1] or 1))
                    failures[told[0]] += told[0] != "200"

        _together([partial(ask, tenant) for tenant in OTHERS])
        asked += share * len(OTHERS)
        marks[str(asked)] = server.resident_mb()
    first, last = marks.values()
    return {"resident_mb": marks, "growth": round(last / first - 1, 4), "failures": dict(+failures)}


@contextmanager
def _connection(port: int) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def _asked(connection: HTTPConnection, tenant: str, question: str) -> tuple[str, str | None, bytes]:
    return _sent(connection, tenant, "/v1/ask", json.dumps({"question": question}).encode(), _JSON)


def _uploaded(connection: HTTPConnection, number: int) -> tuple[str, str | None, bytes]:
    head = f'--{_BORDER}\r\nContent-Disposition: form-data; name="file"; filename="note{number}.md"\r\n\r\n'
    text = f"# Note {number}\n\nBerth {number} is dredged every {number % 90 + 2} days by the noisy team.\n"
    body = f"{head}{text}\r\n--{_BORDER}--\r\n".encode()
    return _sent(connection, NOISY, "/v1/documents", body, {"Content-Type": f"multipart/form-data; boundary={_BORDER}"})


def _sent(
    connection: HTTPConnection, tenant: str, path: str, body: bytes, headers: Mapping[str, str]
) -> tuple[str, str | None, bytes]:
    """Return status, Retry-After and content; for a lost connection its error's name."""
    try:
        connection.request("POST", path, body, {**headers, "Authorization": f"Bearer {tenant}"})
        response = connection.getresponse()
        return str(response.status), response.headers.get("Retry-After"), response.read()
    except (OSError, HTTPException) as error:
        connection.close()
        return type(error).__name__, None, b""


def _lost(port: int, accepted: list[str]) -> list[str]:
    """Return the documents that were accepted and are not there."""
    lost = []
    with _connection(port) as connection:
        for document in accepted:
            while True:
                connection.request("GET", f"/v1/documents/{document}", headers={"Authorization": f"Bearer {NOISY}"})
                response = connection.getresponse()
                response.read()
                if response.status != 429:
                    break
                time.sleep(float(response.headers.get("Retry-After", 1)))
            if response.status != 200:
                lost.append(document)
    return lost


def _together(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.bench.noisy_tenant", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--limit", type=int, default=600, help="requests of a tenant in a minute")
    parser.add_argument("--at-once", type=int, help="requests of a tenant at once; 0: no limit; default: the product's")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind")
    parser.add_argument("--seconds", type=float, default=10, help="of a turn")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between an answer and the next question")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument("--requests", type=int, default=5_000, help="questions after which memory is read again")
    parser.add_argument("--database", default="", help="asked instead of folders, such as 127.0.0.1:5432/postgres")
    chosen = parser.parse_args()
    os.environ["CITELOCK_TOKENS"] = tokens()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "app.yaml")
        write_json(config, settings(Path(folder, "home"), chosen))
        if chosen.database:
            subprocess.run([*CITELOCK, "index", "migrate", "--config", str(config)], check=True, stdout=sys.stderr)
        subprocess.run([*CITELOCK, "build", "--config", str(config)], check=True, stdout=sys.stderr)
        with started(config, chosen.workers) as server:
            told = machine()
            found = measure(server, config, chosen) if chosen.rounds else {}
            found["memory"] = resident(server, chosen.requests)
    print(json.dumps({**vars(chosen), **found, "machine": told}, indent=2))


if __name__ == "__main__":
    main()
