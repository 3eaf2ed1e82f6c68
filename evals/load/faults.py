"""`python -m evals.load --faults all`: what readers see while something fails, and how long until it is over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import httpx
import jwt

from evals.bench.clients import RunningServer
from evals.load.asking import CLIENTS, Judge, Outcome, asking
from evals.load.installation import PATHS, BuiltInstallation, body_of
from evals.load.services import (
    BUCKET,
    FIRST_SOURCE,
    STORE_ENVIRONMENT,
    TENANT,
    FaultFolder,
    FaultStage,
    Mode,
    Postgres,
    SkippedError,
    TcpProxy,
    object_store,
    postgres,
    publish,
    sidecar,
    tcp_proxy,
    wait_for,
    workers_of,
)

PICKED_UP_S = 150  # a request that hangs takes 30 s, and is repeated for 60


Staged = Callable[[FaultFolder], AbstractContextManager[FaultStage]]


def store_fault(mode: Mode) -> Staged:
    """Return the stage of a store that a server reaches only as the proxy lets it; the builder reaches it always."""

    @contextmanager
    def staged(place: FaultFolder) -> Iterator[FaultStage]:
        with shared_home(place) as (builder, reader, proxy), place.serving(reader) as server:
            stage = _while_publishing(place, server, reader, builder)
            yield replace(stage, inject=partial(proxy.turn, mode), heal=partial(proxy.turn, ""))

    return staged


def _while_publishing(place: FaultFolder, server: RunningServer, reader: Path, builder: Path) -> FaultStage:
    """Return a stage, yet without its fault, during which a generation is published that is served afterwards."""
    installation = place.installation(reader)
    before, published = generation_of(server.url, installation), list[bool]()

    def facts() -> dict[str, Any]:
        wait_for(lambda: generation_of(server.url, installation) != before, "nothing new", PICKED_UP_S)
        return {"published_meanwhile": published == [True], "new_generation_served": True}

    stage = FaultStage(server, installation, facts=facts)
    return replace(stage, meanwhile=lambda: published.append(publish(place, builder)))


@contextmanager
def shared_home(place: FaultFolder, cache: Path | None = None) -> Iterator[tuple[Path, Path, TcpProxy]]:
    """Yield the configurations of a machine that builds and of one that reads by a proxy, and the proxy; a first
    generation is published."""
    place.environment |= STORE_ENVIRONMENT
    home = f"s3://{BUCKET}/load"
    with object_store() as port, tcp_proxy(port) as proxy:

        def store(folder: Path, at: int) -> dict[str, Any]:
            return {"cache": str(folder), "endpoint": f"http://127.0.0.1:{at}"}

        builder = place.config("builder", home, object_store=store(place.folder / "builder", port))
        reader = place.config("reader", home, object_store=store(cache or place.folder / "cache", proxy.port))
        done = place.build(builder, FIRST_SOURCE)
        if done.returncode:
            raise RuntimeError(f"the first build failed: {done.stderr[-1000:]}")
        yield builder, reader, proxy


def generation_of(url: str, installation: BuiltInstallation) -> str:
    """Return the generation that a search is answered from."""
    headers = installation.headers(TENANT)
    response = httpx.post(
        url + PATHS["search"], json=body_of("search", installation.questions[0]), headers=headers, timeout=120
    )
    return str(response.raise_for_status().json()["generation"])


Act = Callable[[Postgres], object]


def restart(server: Postgres) -> None:
    """Stop it as an administrator does, and start it again."""
    server.stop("fast")
    server.start()


def database_fault(inject: Act, heal: Act | None, with_index: bool) -> Staged:
    """Return the stage of a server whose telemetry, or also index, is in a failing Postgres."""

    @contextmanager
    def staged(place: FaultFolder) -> Iterator[FaultStage]:
        with postgres(with_index) as database:
            sections: dict[str, Any] = {"telemetry": {"url": database.url}, "audit": {"mode": "best_effort"}}
            if with_index:
                users = {"url": "citelock_app", "writer_url": "citelock_writer", "owner_url": "postgres"}
                urls = {name: f"postgresql://{user}@{database.address}" for name, user in users.items()}
                config = place.config(**sections, index={"kind": "postgres", **urls})
                for done in (place.run("index", "migrate", "--config", str(config)), place.build(config, FIRST_SOURCE)):
                    if done.returncode:
                        raise RuntimeError(f"the build into Postgres failed: {done.stderr[-1000:]}")
            else:
                place.copy_home()
                config = place.config(**sections)
            with place.serving(config) as server:
                stage = FaultStage(server, place.installation(config), partial(inject, database))
                stage.heal = partial(heal, database) if heal else stage.heal
                yield replace(stage, facts=lambda: _facts(database))

    return staged


def _facts(database: Postgres) -> dict[str, Any]:
    import psycopg

    with psycopg.connect(database.url) as connection:
        row = connection.execute("SELECT count(*) FROM receipts").fetchone()
    return {"receipts_stored": row is not None and row[0] > 0}


_EVERY_S = 4.0
_KILLS = 3


def processes_killed(of_both: bool) -> Staged:
    """Return the stage of a server of two processes of which both are killed, or one and twice its successor."""

    @contextmanager
    def staged(place: FaultFolder) -> Iterator[FaultStage]:
        place.copy_home()
        config = place.config()
        with place.serving(config) as server:
            killed: list[int] = []

            def kill() -> None:
                chosen = workers_of(server) if of_both else workers_of(server)[-1:]
                for worker in chosen:
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
                killed.extend(chosen)

            def kill_more() -> None:
                for _ in range(0 if of_both else _KILLS - 1):
                    time.sleep(_EVERY_S)
                    kill()

            def facts() -> dict[str, Any]:
                return {"processes_again": len(set(workers_of(server)) - set(killed)) == 2, "killed": len(killed)}

            yield FaultStage(server, place.installation(config), kill, meanwhile=kill_more, facts=facts)

    return staged


@contextmanager
def worker_frozen(place: FaultFolder) -> Iterator[FaultStage]:
    """Let one of two processes not run for a while, as on a machine with too much to do; it goes on, and is not
    replaced."""
    place.copy_home()
    config = place.config()
    with place.serving(config) as server:
        workers = workers_of(server)

        freeze, thaw = (partial(os.kill, workers[0], number) for number in (signal.SIGSTOP, signal.SIGCONT))
        stage = FaultStage(server, place.installation(config), freeze, thaw)
        yield replace(stage, facts=lambda: {"processes_kept": workers_of(server) == workers})


_FREE_MB = 48
_CACHE_MB = 96


@contextmanager
def home_full(place: FaultFolder) -> Iterator[FaultStage]:
    """Fill the disk of the home: receipts and telemetry cannot be written, a build fails and leaves the publication."""
    size = sum(file.stat().st_size for file in place.base.rglob("*") if file.is_file())
    place.home.mkdir()
    with _small_disk(place.home, size // 2**20 + _FREE_MB):
        shutil.copytree(place.base, place.home, dirs_exist_ok=True)
        config = place.config()
        before, builds = place.current(), list[subprocess.CompletedProcess[str]]()

        def facts() -> dict[str, Any]:
            told = builds[0].stderr.strip().splitlines()[-1:] if builds[0].returncode else ["it ended well"]
            kept = place.current() == before
            built = publish(place, config)
            return {
                "build_failed": builds[0].returncode != 0, "build_told": told[0][:300] if told else False,
                "published_kept": kept, "build_after": built and place.current() != before,
            }  # fmt: skip

        with place.serving(config) as server:
            filler = place.home / "filler"
            stage = FaultStage(server, place.installation(config), partial(_fill, filler), filler.unlink, facts=facts)
            yield replace(stage, meanwhile=lambda: builds.append(place.build(config)))


@contextmanager
def cache_full(place: FaultFolder) -> Iterator[FaultStage]:
    """Fill the disk that generations are fetched into while one is published; it is fetched once there is room."""
    cache = place.folder / "cache"
    cache.mkdir()
    with (
        _small_disk(cache, _CACHE_MB),
        shared_home(place, cache) as (builder, reader, _),
        place.serving(reader) as server,
    ):
        filler = cache / "filler"
        stage = _while_publishing(place, server, reader, builder)
        yield replace(stage, inject=partial(_fill, filler), heal=filler.unlink)


@contextmanager
def _small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a file system in memory.

    Raises:
        SkippedError: that is not allowed here.
    """
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "citelock-load", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        raise SkippedError("a small disk can be mounted by root alone: run it by `unshare -rm`")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def _fill(file: Path) -> None:
    """Write until nothing more fits, to the last byte."""
    size = 1 << 20
    with file.open("wb", buffering=0) as opened:
        while size:
            try:
                if opened.write(b"\xff" * size) < size:
                    size //= 2
            except OSError:
                size //= 2


_DAY_S = 86_400
_KEY = "a-key-of-the-load-tool-for-bearer-tokens-0123456789"
_ISSUER, _AUDIENCE = "https://issuer.invalid", "citelock"


def clock_fault(jump: str) -> Staged:
    """Return the stage of a server whose clock jumps, `+1d` or `-1d`, and back."""

    @contextmanager
    def staged(place: FaultFolder) -> Iterator[FaultStage]:
        place.copy_home()
        clock = place.folder / "clock"
        clock.write_text("+0", encoding="utf-8")
        place.environment |= _faked(clock)
        config = place.config(
            serving=_SERVING, audit={"mode": "required"}, budgets=_BUDGETS, sessions={"store_days": 90}
        )
        far = {TENANT: _token(-3 * _DAY_S, 3 * _DAY_S)}  # valid on either side of the jump
        installation = replace(place.installation(config), tokens=far)
        with place.serving(config) as server:
            short: list[int] = []

            def ask_with_short_token() -> None:
                time.sleep(1)
                body = body_of("search", installation.questions[0])
                headers = {"Authorization": f"Bearer {_token(-60, 600)}"}
                short.append(
                    httpx.post(server.url + PATHS["search"], json=body, headers=headers, timeout=120).status_code
                )

            def facts() -> dict[str, Any]:
                ask_with_short_token()
                return {
                    "ten_minute_token_refused_meanwhile": short[:-1] == [401],
                    "ten_minute_token_accepted_after": short[-1] == 200,
                    "audit_verified": not place.run("audit", "verify", "--config", str(config)).returncode,
                    "receipt_verified": _receipt_verified(server.url, installation),
                }

            set_clock, reset = partial(clock.write_text, jump), partial(clock.write_text, "+0")
            yield FaultStage(server, installation, set_clock, reset, ask_with_short_token, facts)

    return staged


_SERVING = {
    "auth": "jwt",
    "jwt": {"issuer": _ISSUER, "audience": [_AUDIENCE], "key_env": "CITELOCK_LOAD_KEY", "algorithms": ["HS256"]},
}
_BUDGETS = {"questions_per_minute": {"hard": 100_000}, "tokens_per_day": {"hard": 10**9}}


def _faked(clock: Path) -> dict[str, str]:
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        raise SkippedError("libfaketime is not installed: apt-get install faketime")
    return {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "CITELOCK_LOAD_KEY": _KEY,
    }


def _token(begins_s: float, ends_s: float) -> str:
    """Return a token that is valid from so many seconds from now to so many, by the true clock."""
    now = int(time.time())
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "ann", "tenant_id": TENANT, "roles": ["operator"]}
    return jwt.encode({**claims, "nbf": now + begins_s, "exp": now + ends_s}, _KEY, "HS256")


def _receipt_verified(url: str, asked: BuiltInstallation) -> bool:
    with httpx.Client(base_url=url, headers=asked.headers(TENANT), timeout=120) as client:
        answer = client.post(PATHS["ask"], json=body_of("ask", asked.questions[0])).json()
        return client.post(f"/v1/receipts/{answer['receipt_id']}/verify").json().get("valid") is True


RERANKER: dict[str, Any] = {"candidates": 20, "max_seq_len": 128, "timeout_s": 2}  # what the tiny model reads


def sidecar_fault(mode: Mode) -> Staged:
    """Return the stage of a server that reaches its sidecar only as the proxy lets it."""

    @contextmanager
    def staged(place: FaultFolder) -> Iterator[FaultStage]:
        place.copy_home()
        with sidecar(place.folder) as port, tcp_proxy(port) as proxy:
            config = place.config(reranker={"url": f"http://127.0.0.1:{proxy.port}/rerank", **RERANKER})
            with place.serving(config) as server:
                inject, heal = partial(proxy.turn, mode), partial(proxy.turn, "")
                yield FaultStage(server, place.installation(config), inject, heal)

    return staged


_FREEZE, _THAW = (methodcaller("signal", number) for number in (signal.SIGSTOP, signal.SIGCONT))
_STOP = methodcaller("stop", "immediate")
FAULTS: Mapping[str, Staged] = {
    "worker-killed": processes_killed(of_both=False),
    "workers-killed": processes_killed(of_both=True),
    "worker-frozen": worker_frozen,
    "sidecar-silent": sidecar_fault("swallow"),
    "sidecar-reset": sidecar_fault("reset"),
    "database-restarted": database_fault(restart, None, with_index=False),
    "database-stopped": database_fault(_STOP, Postgres.start, with_index=False),
    "database-frozen": database_fault(_FREEZE, _THAW, with_index=False),
    "index-database-restarted": database_fault(restart, None, with_index=True),
    "index-database-stopped": database_fault(_STOP, Postgres.start, with_index=True),
    "index-database-frozen": database_fault(_FREEZE, _THAW, with_index=True),
    "store-slow": store_fault("slow"),
    "store-failing": store_fault("failing"),
    "store-cut": store_fault("reset"),
    "store-silent": store_fault("swallow"),
    "disk-full": home_full,
    "cache-disk-full": cache_full,
    "clock-ahead": clock_fault("+1d"),
    "clock-behind": clock_fault("-1d"),
}


@dataclass(frozen=True)
class Times:
    """Seconds of the parts of one measurement; `heal_s` at most, less where the server has recovered."""

    calm_s: float = 10.0
    fault_s: float = 15.0
    heal_s: float = 45.0


def measure_all(names: Sequence[str], times: Times, folder: Path | None) -> list[dict[str, Any]]:
    """Measure faults one after the other; return the figures of each."""
    with _base(folder) as base:
        return [_measured(name, times, base) for name in names]


def _measured(name: str, times: Times, base: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="citelock-fault-") as folder:
        place = FaultFolder(Path(folder), base)
        try:
            with FAULTS[name](place) as stage:
                figures = measure(name, stage, times).figures()
        except SkippedError as reason:
            figures = {"fault": name, "good": True, "skipped": str(reason)}
        except Exception as error:  # the other faults are measured all the same
            log = "\n".join(place.log().splitlines()[-20:])
            figures = {"fault": name, "good": False, "failed": f"{type(error).__name__}: {error}", "log": log}
    told = figures.get("skipped") or figures.get("failed")
    if "during" in figures:
        during, after = figures["during"], figures["after"]
        told = (
            f"{figures['wrong_answers']} wrong, {during['errors']} of {during['requests']} failed during it, "
            f"{after['errors']} of {after['requests']} after, recovered after {figures['recovery_s']} s, "
            f"{figures['facts']}"
        )
    print(f"{name}: {told}", file=sys.stderr, flush=True)
    return figures


def measure(name: str, stage: FaultStage, times: Times, clients: int = CLIENTS) -> Outcome:
    """Ask in calm, cause the fault, end it, wait until the server has recovered; then judge every answer."""
    judge = Judge(stage.server.url, stage.installation)
    judge.learn()
    with asking(stage.server.url, stage.installation, clients) as group:
        time.sleep(times.calm_s)
        injected = time.monotonic()
        stage.inject()
        beside = threading.Thread(target=stage.meanwhile, daemon=True)
        beside.start()
        time.sleep(max(0.0, times.fault_s - (time.monotonic() - injected)))
        beside.join()
        stage.heal()
        healed = time.monotonic()
        while time.monotonic() < healed + times.heal_s and not group.is_well(healed):
            time.sleep(0.2)
        time.sleep(min(2.0, times.calm_s))
    facts = stage.facts()
    judge.learn()
    judge.judge(group.requests)
    return Outcome(name, group.requests, injected, healed, facts)


@contextmanager
def _base(folder: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="citelock-base-") as temporary:
        place = FaultFolder((folder or Path(temporary)).resolve(), Path())
        place.folder.mkdir(parents=True, exist_ok=True)
        config = place.config("base")
        if not place.current():
            done: subprocess.CompletedProcess[str] = place.build(config, FIRST_SOURCE)
            if done.returncode:
                raise RuntimeError(f"the sample cannot be built: {done.stderr[-1000:]}")
        yield place.home
