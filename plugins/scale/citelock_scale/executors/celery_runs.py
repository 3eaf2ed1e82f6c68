"""Runs as tasks of Celery workers, taken over by another worker when theirs is lost. Dagster's own launcher queries the
result backend alone, which reports "started" for ever when a task's worker was killed, and nothing for one that waits
in the queue: runs would hang, or be started twice."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, ResumeRunContext, WorkerStatus
from dagster._grpc.types import ResumeRunArgs
from dagster._serdes import pack_value
from dagster_celery.config import TASK_RESUME_JOB_NAME
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_QUEUE_TAG, DAGSTER_CELERY_TASK_ID_TAG
from dagster_celery.tasks import create_resume_job_task

from citelock_scale.executors.celery_steps import AWAY, has_worker, waits

_ENDED = {"SUCCESS": WorkerStatus.SUCCESS, "FAILURE": WorkerStatus.FAILED, "REVOKED": WorkerStatus.FAILED}


class CeleryRuns(CeleryRunLauncher):
    """Dagster's Celery run launcher, which notices that a worker is gone."""

    def __init__(self, lost_after_s: float = 30.0, **options: Any) -> None:
        """`lost_after_s`: for so long no worker said that it has the run's task; `options`: Dagster's own."""
        super().__init__(**options)
        self._lost_after_s = lost_after_s
        self._missed_since: dict[str, float] = {}

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        usual: Any = super().config_type()
        return {**usual, "lost_after_s": dg.Field(float, is_required=False, default_value=30.0)}

    def resume_run(self, context: ResumeRunContext) -> None:
        """Hand a run to another worker: Dagster's own method names an argument that its task has not (0.29.27)."""
        run = context.dagster_run
        if run.job_code_origin is None:
            raise ValueError(f"run {run.run_id} does not say where its code is")
        args = ResumeRunArgs(run.job_code_origin, run.run_id, self._instance.get_ref(), set_exit_code_on_failure=True)
        task = create_resume_job_task(self.celery).si(resume_job_args_packed=pack_value(args))
        self._launch_celery_task_run(run=run, task_signature=task, routing_key=TASK_RESUME_JOB_NAME)

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        task = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG)
        if task is None:
            return CheckRunHealthResult(WorkerStatus.FAILED, "No task was made of it.")
        result = self.celery.AsyncResult(task)
        queue = run.tags.get(DAGSTER_CELERY_QUEUE_TAG, self.default_queue)
        try:
            if status := _ENDED.get(result.state):
                self._missed_since.pop(result.id, None)
                return CheckRunHealthResult(status, f"Its task ended as {result.state}.")
            if has_worker(self.celery, result) or waits(self.celery, queue, result):
                self._missed_since.pop(result.id, None)
                return CheckRunHealthResult(WorkerStatus.RUNNING)
            now = time.monotonic()
            missed_s = now - self._missed_since.setdefault(result.id, now)
            if missed_s < self._lost_after_s:
                return CheckRunHealthResult(WorkerStatus.RUNNING)
            del self._missed_since[result.id]
            return CheckRunHealthResult(WorkerStatus.FAILED, f"No worker has had it for {missed_s:.0f} s.")
        except AWAY as error:  # nobody knows, and the worker may still run it
            return CheckRunHealthResult(WorkerStatus.RUNNING, f"The broker does not answer: {error}")
