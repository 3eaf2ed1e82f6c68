"""`python -m evals.load --faults all`: what readers see while something fails, and how long until it is over.

Belongs here: the faults by name, the order of one measurement. Does not belong here: how a fault is caused
(`fault_store`, `fault_database`, `fault_process`, `fault_disk`, `fault_clock`, `fault_network`), figures (`outcomes`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.load.asking import CLIENTS, Judge, asking
from evals.load.fault_clock import clock_fault
from evals.load.fault_database import database_fault, nothing, restart, stop_at_once
from evals.load.fault_disk import cache_full, home_full
from evals.load.fault_network import sidecar_fault
from evals.load.fault_process import processes_killed, worker_frozen
from evals.load.fault_store import store_fault
from evals.load.outcomes import Outcome
from evals.load.services import Postgres
from evals.load.stages import FIRST_SOURCE, Place, SkippedError, Stage

FAULTS: Mapping[str, Callable[[Place], AbstractContextManager[Stage]]] = {
    "worker-killed": processes_killed(of_both=False),
    "workers-killed": processes_killed(of_both=True),
    "worker-frozen": worker_frozen,
    "sidecar-silent": sidecar_fault("swallow"),
    "sidecar-reset": sidecar_fault("reset"),
    "database-restarted": database_fault(restart, nothing, with_index=False),
    "database-stopped": database_fault(stop_at_once, Postgres.start, with_index=False),
    "database-frozen": database_fault(Postgres.freeze, Postgres.thaw, with_index=False),
    "index-database-restarted": database_fault(restart, nothing, with_index=True),
    "index-database-stopped": database_fault(stop_at_once, Postgres.start, with_index=True),
    "index-database-frozen": database_fault(Postgres.freeze, Postgres.thaw, with_index=True),
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
        place = Place(Path(folder), base)
        try:
            with FAULTS[name](place) as stage:
                figures = measure(name, stage, times).figures()
        except SkippedError as reason:
            figures = {"fault": name, "good": True, "skipped": str(reason)}
        except Exception as error:  # the other faults are measured all the same
            log = "\n".join(place.log().splitlines()[-20:])
            figures = {"fault": name, "good": False, "failed": f"{type(error).__name__}: {error}", "log": log}
    print(f"{name}: {_line(figures)}", file=sys.stderr, flush=True)
    return figures


def measure(name: str, stage: Stage, times: Times, clients: int = CLIENTS) -> Outcome:
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
    """Yield a home of the sample with its first source published."""
    with tempfile.TemporaryDirectory(prefix="citelock-base-") as temporary:
        place = Place((folder or Path(temporary)).resolve(), Path())
        place.folder.mkdir(parents=True, exist_ok=True)
        config = place.config("base")
        if not place.current():
            done: subprocess.CompletedProcess[str] = place.build(config, FIRST_SOURCE)
            if done.returncode:
                raise RuntimeError(f"the sample cannot be built: {done.stderr[-1000:]}")
        yield place.home


def _line(figures: Mapping[str, Any]) -> str:
    if "during" not in figures:
        return str(figures.get("skipped") or figures.get("failed"))
    during, after = figures["during"], figures["after"]
    return (
        f"{figures['wrong_answers']} wrong, {during['errors']} of {during['requests']} failed during it, "
        f"{after['errors']} of {after['requests']} after, recovered after {figures['recovery_s']} s, {figures['facts']}"
    )
