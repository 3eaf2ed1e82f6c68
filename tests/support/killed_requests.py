"""A client that is killed before a request, as its process might be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock


class KilledError(BaseException):
    """The process is gone."""


class Requests:
    """Those that were begun. `died`: whether the one to die at was among them."""

    def __init__(self) -> None:
        self.begun, self.died = 0, False


@contextmanager
def killed_at(connection: Any, moment: int) -> Iterator[Requests]:
    """Make the connections of a class die before their request number `moment`, which ends the block."""
    ask, requests = connection.ask, Requests()

    def asked(self: Any, request: Callable[..., Any]) -> Any:
        requests.begun += 1
        if requests.begun == moment:
            requests.died = True
            raise KilledError
        return ask(self, request)

    with suppress(KilledError), mock.patch.object(connection, "ask", asked):
        yield requests
