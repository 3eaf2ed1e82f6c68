"""Parts of a question, timed, a span of the trace each; a part that may fail leaves a flag instead of an error."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rag_serving.deadline import check
from rag_serving.tracing.spans import FLAG, part_span

Listen = Callable[[str, str], None]
"""Called with the part that begins, or goes on, and a detail or nothing."""

_BUCKET_MS = 10

_log = logging.getLogger(__name__)


@dataclass
class StageTrace:
    """Degradations so far, and the duration of each part; `listen` is called when each part begins, for progress;
    `watch` as well, for time limits."""

    listen: Listen | None = None
    flags: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    watch: Callable[[str], None] | None = None

    @contextmanager
    def part(self, name: str, flag: str | None = None) -> Iterator[None]:
        """Time a part. With a flag its failure is remembered instead of raised: a question never fails for it. Raises
        StoppedError: nobody waits for the answer any more."""
        check()
        if self.watch:
            self.watch(name)
        self.tell(name)
        start = time.perf_counter()
        with part_span(name) as opened:
            try:
                yield
            except Exception as error:  # models, servers and databases fail in errors of any class
                if flag is None:
                    raise
                self.raise_flag(flag)
                opened.set({FLAG: flag})
                opened.fail(type(error).__name__)
                _log.warning("%s: %s: %s", flag, type(error).__name__, error)
            finally:
                self.timings_ms[name] = round((time.perf_counter() - start) * 1000, 3)

    def tell(self, part: str, detail: str = "") -> None:
        """Report progress to waiting callers."""
        if self.listen:
            self.listen(part, detail)

    def include(self, other: StageTrace) -> None:
        """Add another trace's notes."""
        self.timings_ms.update(other.timings_ms)
        for flag in other.flags:
            self.raise_flag(flag)

    def raise_flag(self, flag: str) -> None:
        """Note a degradation, once."""
        if flag not in self.flags:
            self.flags.append(flag)


def coarse(timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Return times rounded up to 10 ms, so that they do not reveal the work caused by one hidden word."""
    return {part: math.ceil(value / _BUCKET_MS) * _BUCKET_MS for part, value in timings_ms.items()}
