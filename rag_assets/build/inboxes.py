"""`python -m rag_assets.build.inboxes`: makes what is uploaded, and pages that a wiki names in events, searchable at
once, in a process that is ready for it. A run that Dagster starts waits for a tick of the sensor (every 5 s), for the
queue, and for an interpreter that imports everything anew. Runs of this process wait for none of these, and the UI
shows them like any other."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import dagster as dg

from rag_assets.definitions import build_defs
from rag_assets.partitions import partitions_in_flight, register
from rag_assets.progress import Reporter
from rag_assets.resources import STEP_WAIT_SECONDS
from rag_assets.runs import INBOXES, JOB, STARTED_BY, InboxBuild, ProjectJobs, RunOptions, end_orphans, keep_engines
from rag_assets.state.locks import LockedError, exclusive
from rag_assets.state.planning import unseen_uploads, watching_folder
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import ConfigError, load_config
from rag_serving.documents.inbox import inboxes_of
from rag_serving.documents.noted import noted_pages
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import for_log
from rag_serving.models import ModelError, open_embedder
from rag_serving.privacy import complain, log_to_stderr

LOOK_EVERY_S = 0.2
LOOK_CLOSELY_EVERY_S = 5.0
"""How often records are compared although no file of an inbox was written: the configuration may be another one."""
PAUSE_AFTER_ERROR_S = 5.0
_IMPORTED_LATER = (
    "bm25s", "chromadb", "markdown_it", "matplotlib.backends.backend_agg", "matplotlib.figure", "pandas",
    "pyarrow.parquet", "upath",
)  # fmt: skip
"""What a build imports where it is needed: 1.8 s of processor time, which the first upload would wait for."""
_OBJECTS = 50_000
"""New objects after which garbage is looked for: a build makes millions, hardly any of them in circles."""
_OPTIONS = RunOptions({STARTED_BY: INBOXES}, log_level="CRITICAL")


class InboxWatch:
    """The inboxes of an installation, and what was tried of each."""

    def __init__(self, config_path: Path | None, instance: dg.DagsterInstance) -> None:
        """Open the definitions. Raises ConfigError: the configuration cannot be used."""
        self._config_path = config_path
        self._instance = instance
        self._jobs = ProjectJobs(build_defs(config_path, reporter=Reporter()).resolve_job_def)
        self._config = load_config(config_path)
        self._stamps: Mapping[str, object] = {}
        self._tried: dict[str, str] = {}
        self._looked_at = float("-inf")

    def warm_up(self) -> None:
        """Open what the first run would open."""
        keep_engines()
        for name in _IMPORTED_LATER:
            import_module(name)
        self._jobs.load("ingest", "publish")
        open_embedder(self._config.embedding).embed_query("ready")
        gc.collect()
        gc.freeze()  # what was imported lives as long as the process, and is looked through for garbage no more
        gc.set_threshold(_OBJECTS)

    def look(self) -> list[str]:
        """Build the inboxes that have anything new; return their keys. What failed is not tried again as it is."""
        stamps, now = self._stamped(), time.monotonic()
        if stamps == self._stamps and now - self._looked_at < LOOK_CLOSELY_EVERY_S:
            return []
        self._config = load_config(self._config_path)
        waiting = unseen_uploads(self._config, Store(self._config.home))
        new = {key: mark for key, mark in waiting.items() if self._tried.get(key) != mark}
        built = [key for key, mark in new.items() if self._build(key, mark)]
        if len(built) == len(new):  # else another build is at one of them, and it is looked at again at once
            self._stamps, self._looked_at = stamps, now  # of before: what came meanwhile is another stamp
        return built

    def _build(self, key: str, mark: str) -> bool:
        """Build an inbox; False where it has to wait for another build."""
        register(self._instance, self._config)
        end_orphans(self._instance)
        if any(key in partitions_in_flight(self._instance, job) for job in ("ingest", JOB)):
            return False
        began = time.monotonic()
        try:
            outcomes = InboxBuild(self._config, key, self._jobs, self._instance, _OPTIONS).run()
        except LockedError as error:
            _tell(f"{key}: {error}")
            return False
        self._tried[key] = mark
        failed = "; ".join(f"{job} failed: {outcome.error}" for job, outcome in outcomes.items() if outcome.error)
        _tell(f"{key}: {failed or ' and '.join(outcomes)} in {time.monotonic() - began:.1f} s")
        return True

    def _stamped(self) -> dict[str, object]:
        """Return what changes whenever a document is put in, replaced or deleted, or a page noted, by source."""
        inboxes = [inbox for tenant in self._config.tenants for inbox in inboxes_of(self._config, tenant)]
        noted = noted_pages(self._config)
        return {
            **{inbox.key: inbox.files.records_stamp() for inbox in inboxes},
            **{key: notes.stamp() for key, notes in noted.items()},
        }


def watch(config_path: Path | None = None) -> None:
    """Look until a signal ends the process; an error is told, and the next look is a little later."""
    with ExitStack() as stack:
        stack.enter_context(exclusive(watching_folder(Store(load_config(config_path).home)), STEP_WAIT_SECONDS))
        inboxes = InboxWatch(config_path, stack.enter_context(dg.DagsterInstance.get()))
        inboxes.warm_up()
        while True:
            try:
                inboxes.look()
                time.sleep(LOOK_EVERY_S)
            except Exception as error:  # Dagster's storage, a configuration that is being edited: none ends the watch
                _tell(f"{type(error).__name__}: {error}")
                time.sleep(PAUSE_AFTER_ERROR_S)


def _tell(line: str) -> None:
    print(f"inboxes: {for_log(redacted(line))}", file=sys.stderr, flush=True)


def main() -> int:
    log_to_stderr()
    try:
        watch()
    except (ConfigError, LockedError, ModelError) as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    return 0  # never: a watch has no end of its own


if __name__ == "__main__":
    sys.exit(main())
