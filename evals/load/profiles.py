"""Profiles of load: how many clients at once, with which pauses, through which doors, of which tenants.

Belongs here: the profiles by name. Does not belong here: sending requests (`users`), what is asked (`installation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

ASK, STREAM, SEARCH = "ask", "stream", "search"


@dataclass(frozen=True)
class Stage:
    """So many clients for so many seconds."""

    clients: int
    seconds: float


@dataclass(frozen=True)
class Profile:
    """A kind of load.

    Attributes:
        stages: passed through in their order, and begun again while time is left.
        pause_s: seconds between an answer and the client's next request, on average.
        doors: of a client's requests, the share that goes through each door.
        tenants: how many tenants the clients belong to, in turns.
    """

    name: str
    stages: tuple[Stage, ...]
    pause_s: float = 0.0
    doors: Mapping[str, float] = field(default_factory=lambda: {ASK: 1.0})
    tenants: int = 1

    def clients_at(self, seconds: float) -> int:
        """Return how many clients ask at a moment, counted from the beginning."""
        place = seconds % sum(stage.seconds for stage in self.stages)
        for stage in self.stages:
            place -= stage.seconds
            if place < 0:
                return stage.clients
        return self.stages[-1].clients

    def with_clients(self, clients: int) -> Profile:
        """Return the same with so many clients in its fullest stage, the others in proportion."""
        most = max(stage.clients for stage in self.stages)
        stages = [replace(stage, clients=max(1, round(stage.clients * clients / most))) for stage in self.stages]
        return replace(self, stages=tuple(stages))


_ALWAYS = 3_600.0

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("steady", (Stage(8, _ALWAYS),)),
        Profile("burst", (Stage(2, 10), Stage(32, 5)), pause_s=0.1),
        Profile("streaming", (Stage(8, _ALWAYS),), doors={STREAM: 1.0}),
        Profile("mixed", (Stage(9, _ALWAYS),), 0.05, {ASK: 0.5, STREAM: 0.2, SEARCH: 0.3}, tenants=3),
        Profile("search", (Stage(8, _ALWAYS),), doors={SEARCH: 1.0}),
    )
}
