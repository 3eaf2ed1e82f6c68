"""Steps as tasks of Celery workers, handed out again when their worker is lost. A message is taken from the broker when
its task begins: a step is run by one worker at a time, however long it takes. So nothing else notices when its worker
is killed. Redis would hand a message that is acknowledged late to a second worker after its visibility timeout, whether
or not the first one is still at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import dagster as dg
from amqp.exceptions import NotFound
from billiard.exceptions import WorkerLostError
from celery import Celery
from celery.result import AsyncResult
from dagster._core.execution.retries import RetryMode
from dagster_celery.core_execution_loop import core_celery_execution_loop
from dagster_celery.executor import CeleryExecutor, _submit_task
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import RedisError

# Errors of a request whose broker or result backend is unavailable.
AWAY = (OperationalError, ConnectionError, RedisError, TimeoutError)
REPLY_S = 1.0
LOOKS = 4
"""Looks at a task within the time after which it is lost."""


class TaskWatch:
    """Looks now and then whether the worker of a task is still there."""

    def __init__(self, app: Celery, queue: str, lost_after_s: float, clock: Callable[[], float] = time.monotonic):
        self._app, self._queue, self._lost_after_s, self._clock = app, queue, lost_after_s, clock
        self.begin()

    def begin(self) -> None:
        """Watch another task."""
        self._looked_at = self._seen_at = self._clock()

    def is_lost(self, result: AsyncResult) -> bool:
        """Return whether no worker had the task for so long; unknown while the broker is away."""
        now = self._clock()
        if now - self._looked_at < self._lost_after_s / LOOKS:
            return False
        try:
            is_there = has_worker(self._app, result) or waits(self._app, self._queue, result)
        except AWAY:
            is_there = True
        self._looked_at = self._clock()
        if is_there:
            self._seen_at = self._looked_at
        return self._looked_at - self._seen_at >= self._lost_after_s


def has_worker(app: Celery, result: AsyncResult) -> bool:
    """Return whether a worker reports the task; if one began it, only that one is queried."""
    told = result.backend.get_task_meta(result.id).get("result")
    host = told.get("hostname") if isinstance(told, dict) else None
    replies = app.control.inspect([host] if host else None, timeout=REPLY_S).query_task(result.id)
    return any(result.id in tasks for tasks in (replies or {}).values())


def waits(app: Celery, queue: str, result: AsyncResult) -> bool:
    """Return whether the task may still be in its queue: nobody began it, and the queue is not empty."""
    if result.state != "PENDING":
        return False
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count) > 0
        except (ChannelError, NotFound):  # there is none until somebody puts a task into it
            return False


class StepLostError(Exception):
    """A step was handed out as often as may be, and its worker was lost each time."""


class WatchedStep:
    """A step that was handed out; in place of Celery's result of its task."""

    def __init__(
        self, submit: Callable[[], AsyncResult], watch: TaskWatch, attempts: int, tell: Callable[[str], object]
    ):
        self._submit, self._watch, self._left, self._tell = submit, watch, attempts, tell
        self._result: AsyncResult | None = None
        self._is_given_up = False
        self._hand_out()

    def ready(self) -> bool:
        """Return whether the step has ended; one whose worker was lost is handed out again."""
        if self._result is None:
            self._hand_out()
            return False
        try:
            is_ready = self._result.ready()
            is_lost = _died(self._result) if is_ready else self._watch.is_lost(self._result)
        except AWAY:  # ended steps are reported when broker and results are back
            return False
        if is_lost and self._left > 0:
            self._tell("its worker was lost; the step is handed out again")
            with suppress(*AWAY):
                self._result.revoke()
            self._result = None
            self._hand_out()
            return False
        self._is_given_up = is_lost
        return is_ready or is_lost

    def get(self) -> Any:
        """Return the events of the step. Raises StepLostError: its worker was lost too often."""
        if self._is_given_up or self._result is None:
            raise StepLostError(
                "its worker was lost each time that the step was handed out ; look for "
                "what ends it, such as the memory that it needs, in the worker's log"
            )
        return self._result.get()

    def revoke(self) -> None:
        """Let no worker begin it."""
        if self._result is not None:
            with suppress(*AWAY):
                self._result.revoke()

    def _hand_out(self) -> None:
        """Make a task of the step; while the broker is away it waits for the next look."""
        with suppress(*AWAY):
            self._result = self._submit()
            self._left -= 1
            self._watch.begin()


def _died(result: AsyncResult) -> bool:
    """Return whether a task ended because the process that ran it did."""
    return result.state == "FAILURE" and isinstance(result.result, WorkerLostError)


class WatchedCeleryExecutor(CeleryExecutor):
    """Dagster's Celery executor, whose steps outlive their workers."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(RetryMode.ENABLED, config["broker"], config["backend"], config_source=_SETTINGS)  # type: ignore[no-untyped-call]
        self._queue, self._lost_after_s, self._attempts = config["queue"], config["lost_after_s"], config["attempts"]

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[Any]:
        yield from core_celery_execution_loop(plan_context, execution_plan, step_execution_fn=self._watched)

    def _watched(self, app: Any, context: Any, step: Any, _queue: str, priority: int, known_state: Any) -> WatchedStep:
        submit = partial(_submit_task, app, context, step, self._queue, priority, known_state)
        watch = TaskWatch(app, self._queue, self._lost_after_s)
        return WatchedStep(submit, watch, self._attempts, partial(_tell, context, step.key))


def _tell(context: Any, step: str, what: str) -> None:
    context.log.warning("%s: %s", step, what)


_SETTINGS = {"task_track_started": True, "broker_connection_retry_on_startup": True}


@dg.executor(
    name="celery",
    config_schema={
        # Workers read the same variables.
        "broker": dg.Field(dg.StringSource, default_value={"env": "CELERY_BROKER_URL"}),
        "backend": dg.Field(dg.StringSource, default_value={"env": "CELERY_RESULT_BACKEND"}),
        "queue": dg.Field(str, default_value="dagster"),
        "lost_after_s": dg.Field(float, default_value=30.0),  # seconds without a worker, until it is handed out again
        "attempts": dg.Field(int, default_value=5),  # times that a lost step is handed out
    },
    requirements=dg.multiple_process_executor_requirements(),
)
def celery_steps(context: dg.InitExecutorContext) -> dg.Executor:
    """Run each step as a task of Celery workers that share home, configuration and the storage of Dagster."""
    return WatchedCeleryExecutor(dict(context.executor_config))
