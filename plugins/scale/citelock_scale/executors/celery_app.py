"""The Celery application of the workers: `celery --app citelock_scale.executors.celery_app worker --queues dagster`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache
from typing import Any

import dagster as dg
from celery import Celery, Task
from celery.signals import worker_process_init
from dagster._grpc.types import ExecuteStepArgs
from dagster._serdes import unpack_value
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task, create_task

_SETTINGS = {
    "broker_connection_retry_on_startup": True,
    "result_extended": True,
    "task_track_started": True,  # the worker of a task is queried by the name under which it began
    "worker_disable_prefetch": True,  # a worker that is busy keeps no step from one that is not
    "worker_prefetch_multiplier": 1,
}
_PARENT_ENDED = 1  # PR_SET_PDEATHSIG, prctl(2)


class StepTask(Task):  # type: ignore[misc]
    """A step of a run, unless the run is over: a broker may hand out a message again, hours later."""

    def __call__(self, execute_step_args_packed: Any, executable_dict: Any) -> Any:
        args = unpack_value(execute_step_args_packed, as_type=ExecuteStepArgs)
        if args.instance_ref is not None:
            with dg.DagsterInstance.from_ref(args.instance_ref) as instance:
                run = instance.get_run_by_id(args.run_id)
            if run is None or run.is_finished:
                return []
        return self.run(execute_step_args_packed, executable_dict)


@cache
def worker_app() -> Celery:
    """Return the application, with Dagster's tasks of steps and of runs."""
    application = make_app()
    application.conf.update(_SETTINGS)
    create_task(application, base=StepTask)
    create_execute_job_task(application)
    create_resume_job_task(application)
    worker_process_init.connect(_end_with_parent, weak=False)
    return application


def __getattr__(name: str) -> Any:
    if name == "app":
        return worker_app()
    raise AttributeError(name)


def _end_with_parent(**_: Any) -> None:
    """Let the kernel end this process when its worker is killed: its step goes on no more, its locks are free."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PARENT_ENDED, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
