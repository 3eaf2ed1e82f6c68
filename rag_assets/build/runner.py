"""Running the two jobs in this process, for `citelock build`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import dagster as dg

from rag_assets.definitions import build_defs
from rag_assets.partitions import register
from rag_assets.progress import Reporter
from rag_assets.runs import ProjectJobs, RunOptions, RunOutcome, end_orphans
from rag_serving.config.loading import Config

STARTED_BY = {"citelock/started_by": "citelock build"}


class Runner:
    """Runs jobs on the instance of DAGSTER_HOME, where the UI shows them, or on one that is forgotten afterwards."""

    def __init__(self, config: Config, config_path: Path | None, reporter: Reporter, home: str | None, verbose: bool):
        self._jobs = ProjectJobs(build_defs(config_path, reporter=reporter).resolve_job_def)
        self._exit = ExitStack()
        self._instance = self._exit.enter_context(dg.DagsterInstance.get() if home else dg.DagsterInstance.ephemeral())
        self._log_level = "INFO" if verbose else "CRITICAL"
        if home:
            end_orphans(self._instance)  # a build that was killed has places in pools, which this one would wait for
        register(self._instance, config)

    def close(self) -> None:
        """Let go of the instance."""
        self._exit.close()

    def run(
        self, job: str, partition: str, tags: Mapping[str, str] | None = None, only: Sequence[str] = ()
    ) -> RunOutcome:
        """Run a job for a partition, with further tags; a failure is an outcome, not an exception. `only` are the
        assets of the job to make; empty: all. Raises KeyboardInterrupt: a person stopped it."""
        options = RunOptions({**STARTED_BY, **(tags or {})}, only, self._log_level)
        return self._jobs.run(job, partition, self._instance, options)
