"""As many questions are searched at once as there are cores; others wait for their turn.

Belongs here: turns, and for which configurations they are taken. Does not belong here: searching (`pipeline`).

A search is many short calls of numpy, each of which hands the interpreter lock over where somebody waits for it. With
more threads than cores most of the time goes into that: eight clients of two cores are answered a fifth faster in
turns. Whoever waits for a server uses no core, so where a search asks servers nobody waits for a turn.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from queue import SimpleQueue

from rag_serving.cores import cores


class Turns:
    """A context that so many threads are in at once, served in the order of their coming."""

    def __init__(self, count: int) -> None:
        self._free = SimpleQueue[None]()  # lighter than a semaphore, which waits in Python
        for _ in range(count):
            self._free.put(None)

    def __enter__(self) -> None:
        self._free.get()

    def __exit__(self, *_: object) -> None:
        self._free.put(None)


def search_turns(in_process: bool, workers: int = 1) -> AbstractContextManager[None]:
    """What a search is done under: a turn of this process, where all of it is computed `in_process`; of several
    workers each has its share of the cores."""
    return _turns(-(-cores() // workers)) if in_process else nullcontext()


@cache
def _turns(count: int) -> Turns:
    """One for the whole process, whatever its tenants."""
    return Turns(count)
