"""The state of a task according to Celery's workers and broker: taken, waiting, or lost.

A message is taken from the broker when its task begins: a step is run by one worker at a time, however long it takes.
So nothing else notices when its worker is killed. Redis would hand a message that is acknowledged late to a second
worker after its visibility timeout, whether or not the first one is still at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amqp.exceptions import NotFound
from celery import Celery
from celery.result import AsyncResult
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import RedisError

AWAY = (OperationalError, ConnectionError, RedisError, TimeoutError)
"""What asking raises where broker or result backend are away."""
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
    return result.state == "PENDING" and queue_length(app, queue) > 0


def queue_length(app: Celery, queue: str) -> int:
    """Return how many tasks wait in a queue."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
        except (ChannelError, NotFound):  # there is none until somebody puts a task into it
            return 0
