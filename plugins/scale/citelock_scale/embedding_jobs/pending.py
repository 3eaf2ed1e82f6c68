"""Which of a build's texts are still to come: not enqueued, in a job, or over.

Belongs here: the bookkeeping, without a clock or a database. Does not belong here: waiting (`waiting`).

Batches are cut as the build itself would cut them, the longest texts first, by the number of texts and of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from citelock_scale.embedding_jobs.records import Batch, Item, QueueState
from rag_serving.config.jobs import Jobs

CHARS_PER_TOKEN = 4


class Pending:
    """The texts of one call, the longest first, none twice."""

    def __init__(self, tenant: str, model: str, items: Sequence[Item], settings: Jobs) -> None:
        self.model, self.items = model, {item.key: item for item in items}
        self._tenant, self._settings = tenant, settings
        self._unasked = dict.fromkeys(self.items)  # in no job so far, in order
        self._open: set[str] = set()
        self._over: set[str] = set()
        self._room = settings.max_waiting
        self.told_held_up = False

    @property
    def total(self) -> int:
        return len(self.items)

    @property
    def done(self) -> int:
        """How many texts no job has any more: embedded, or put aside."""
        return len(self._over)

    @property
    def left(self) -> int:
        """How many texts were not enqueued yet."""
        return len(self._unasked)

    @property
    def is_over(self) -> bool:
        return len(self._over) == len(self.items)

    @property
    def is_held_up(self) -> bool:
        """Whether the bound of the queue keeps texts out."""
        return bool(self._unasked)

    @property
    def share(self) -> float:
        """The share of all characters that is done."""
        work = sum(len(item.text) for item in self.items.values())
        return sum(len(self.items[key].text) for key in self._over) / work if work else 1.0

    def note(self, state: QueueState) -> list[Item]:
        """Take in what the queue has of the tenant; return the texts that are over since the last time."""
        is_open = {key for keys in state.open.values() for key in keys} & self.items.keys()
        is_dead = {key for failure in state.dead.values() for key in failure.keys} & self.items.keys()
        for key in is_open | is_dead:
            self._unasked.pop(key, None)  # another build's job, or one of this build before it was killed, has it
        over = (self._open | is_dead) - is_open - self._over
        self._open = is_open | (self._open - over)
        self._over = (self._over | over) - is_open
        self._room = max(0, self._settings.max_waiting - (len(state.open) - state.running))
        return [self.items[key] for key in sorted(over)]

    def batches(self) -> list[Batch]:
        """Return what the queue has room for of the texts that were not enqueued."""
        parts: list[list[str]] = []
        tokens = 0
        for key in self._unasked:
            own = len(self.items[key].text) // CHARS_PER_TOKEN
            is_full = tokens + own > self._settings.tokens_per_job
            if not parts or is_full or len(parts[-1]) == self._settings.texts_per_job:
                if len(parts) == self._room:
                    break
                parts.append([])
                tokens = 0
            parts[-1].append(key)
            tokens += own
        return [self._batch(part) for part in parts]

    def accept(self, batches: Sequence[Batch]) -> None:
        """Note batches as enqueued."""
        for batch in batches:
            for item in batch.items:
                self._unasked.pop(item.key, None)
                self._open.add(item.key)

    def take_back(self, keys: Sequence[str]) -> None:
        """Note texts as in no job any more: they are enqueued again."""
        for key in keys:
            if key in self.items:
                self._open.discard(key)
                self._over.discard(key)
                self._unasked[key] = None

    def _batch(self, keys: Sequence[str]) -> Batch:
        items = tuple(self.items[key] for key in keys)
        tokens = sum(len(item.text) for item in items) // CHARS_PER_TOKEN
        return Batch(self._tenant, self.model, items, max(1, tokens))
