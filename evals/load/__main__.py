"""Put load on a server: `python -m evals.load --profile mixed` starts one of the sample wiki and prints JSON.

Every answer is compared with what the server said before the load began. Ends with 1 if a request failed, an answer
was another one, memory was not flat (--soak), or many clients were served too slowly (--scaling --at-least 1.8).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evals.bench.clients import started
from evals.bench.report import load, machine
from evals.load.faults import FAULTS, Times, measure_all
from evals.load.installation import BuiltInstallation, gold_questions, sample
from evals.load.plan import ASK, MOST_WORDINGS, PROFILES, SEARCH, worded
from evals.load.running import LoadTarget, run, scaling, soak

_CODE = """
import os, sys, threading, time
_kept = []
def _leak():
    while True:
        time.sleep({every_s})
        _kept.append(bytes(range(256)) * 256)  # 64 KiB that were written to
if any("forkserver" in word for word in sys.orig_argv):  # serving processes are forked from this one
    os.register_at_fork(after_in_child=lambda: threading.Thread(target=_leak, daemon=True).start())
"""
_BYTES = 65_536


@contextmanager
def planted(mb_per_hour: float) -> Iterator[None]:
    """Let each serving process that starts meanwhile leak so much; 0: none."""
    if not mb_per_hour:
        yield
        return
    before = os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory(prefix="citelock-leak-") as folder:
        code = _CODE.format(every_s=3600 * _BYTES / (mb_per_hour * 1e6))
        Path(folder, "sitecustomize.py").write_text(code, encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, before]))
        try:
            yield
        finally:
            os.environ["PYTHONPATH"] = before


SOAK_MINUTES = 2.0
_HELD = {"degradation": {"automatic": False, "phase_timeout_s": 60}}


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says; the exit code."""
    options = _options(arguments)
    if options.faults:
        return _faults(options)
    profile = PROFILES[options.profile]
    if options.clients:
        profile = profile.with_clients(options.clients)
    told = machine()
    with planted(options.plant_leak / options.workers), _target(options, profile.tenants) as target:
        target.doors = tuple(dict.fromkeys(SEARCH if door == SEARCH else ASK for door in profile.doors))
        if options.scaling:
            clients, seconds = options.clients or 8, options.seconds
            found, is_good = scaling(target, profile, clients, seconds, options.rounds, options.at_least)
        elif options.soak:
            found, is_good = soak(target, profile, options.soak * 60)
        else:
            results = run(target, profile, options.seconds, options.requests)
            found, is_good = results.figures() | {"wrong": results.wrong}, results.is_clean
        if target.server:
            found["resident_mb"] = round(target.server.resident_mb(), 1)
    asked = {"profile": profile.name, "clients": max(stage.clients for stage in profile.stages), "url": options.url}
    told["load_after"] = load()
    print(json.dumps({**asked, "workers": options.workers, **found, "machine": told}, indent=2))
    return 0 if is_good else 1


def _faults(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end and small disks are unmounted
    names = [*FAULTS] if options.faults == "all" else options.faults.split(",")
    told = machine()
    figures = measure_all(names, Times(options.calm, options.fault, options.heal), options.home)
    print(json.dumps({"faults": figures, "machine": {**told, "load_after": load()}}, indent=2))
    return 0 if all(one["good"] for one in figures) else 1


@contextmanager
def _target(options: argparse.Namespace, tenants: int) -> Iterator[LoadTarget]:
    lines = options.questions.read_text(encoding="utf-8").splitlines() if options.questions else []
    own = tuple(line.strip() for line in lines if line.strip())
    questions = worded(own or gold_questions(), options.wordings)
    if options.url:
        token = {"": sys.stdin.readline().strip()} if options.token else {}
        yield LoadTarget(options.url, BuiltInstallation(None, ("",), token, questions), None)
    elif options.config:
        with started(options.config, options.workers) as server:
            yield LoadTarget(server.url, BuiltInstallation(options.config, ("",), {}, questions), server)
    else:
        with sample(options.home, tenants, options.wordings, **_HELD if options.hold_phase else {}) as built:
            assert built.config
            with started(built.config, options.workers) as server:
                yield LoadTarget(server.url, built, server)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.load", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", choices=[*PROFILES], default="steady")
    parser.add_argument("--clients", type=int, help="at once, in the profile's fullest stage")
    parser.add_argument("--seconds", type=float, default=30, help="of load; with --scaling of each turn")
    parser.add_argument("--requests", type=int, default=0, help="end after so many, if that is sooner")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server that is started")
    parser.add_argument("--scaling", action="store_true", help="one client and many in turns: the ratio of their rates")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="RATIO", help="fail below, with --scaling")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each kind with --scaling")
    parser.add_argument(
        "--soak", type=float, nargs="?", const=SOAK_MINUTES, metavar="MINUTES", help="watch memory meanwhile"
    )
    parser.add_argument("--faults", metavar="NAMES", help=f"all, or some of {', '.join(FAULTS)}")
    parser.add_argument("--calm", type=float, default=Times.calm_s, help="seconds before a fault")
    parser.add_argument("--fault", type=float, default=Times.fault_s, help="seconds that a fault lasts at least")
    parser.add_argument("--heal", type=float, default=Times.heal_s, help="seconds to wait for recovery at most")
    parser.add_argument("--home", type=Path, help="folder in which the sample is built, or was")
    parser.add_argument("--config", type=Path, help="serve this configuration, without sign-in, in place of the sample")
    parser.add_argument("--url", help="ask a server that runs, such as http://127.0.0.1:8088")
    parser.add_argument("--token", action="store_true", help="read the token for --url from standard input")
    parser.add_argument("--wordings", type=int, default=2, choices=range(1, MOST_WORDINGS + 1), help="of each question")
    parser.add_argument(
        "--plant-leak", type=float, default=0.0, metavar="MB", help="of memory in an hour, to see that --soak finds it"
    )
    parser.add_argument(
        "--hold-phase", action="store_true", help="search the sample in full however slow a busy machine makes it"
    )
    parser.add_argument("--questions", type=Path, help="one a line, for --config and --url")
    options = parser.parse_args(arguments)
    unknown = sorted({*(options.faults or "all").split(",")} - {"all", *FAULTS})
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    if (options.url or options.config) and PROFILES[options.profile].tenants > 1:
        parser.error(f"the profile {options.profile} needs the tenants of the sample")
    return options


if __name__ == "__main__":
    sys.exit(main())
