"""The phases of retrieval: which one is configured, for whom another is tried out, when a server leaves one by itself.

Belongs here: keys, types, defaults, what is in force for a tenant. Does not belong here: going down and up
(`rag_serving.degradation`), what a phase searches (`rag_serving.retrieval`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from rag_serving.config.sources import Section

PHASES = (3, 2, 1)
"""3 searches by words and meaning, 2 scores chunks by keywords, 1 scores documents by keywords."""
VARIABLES: Mapping[str, str] = {"enabled": "DOC_RETRIEVAL_ENABLED", "phase": "DOC_RETRIEVAL_PHASE"}
"""Other names of the environment for `retrieval.enabled` and `retrieval.phase`; they hold for every tenant."""


class Canary(Section):
    """Another phase, or other switches, for some questions only."""

    phase: int | None = Field(None, ge=1, le=3)
    """The phase that these questions are asked in; null: the same as all."""
    features: dict[str, bool] = Field({})
    """Switches of `features` that are otherwise for these questions."""
    share: float = Field(0, ge=0, le=1)
    """Share of the users, chosen by a hash of their names: the same ones each time. Who has no name is chosen at 1
    alone."""
    spaces: list[str] = Field([])
    """Questions that a filter, or `space:KEY`, narrows to these spaces alone are asked so, too."""

    @model_validator(mode="after")
    def _is_something(self) -> Canary:
        if self.phase is None and not self.features:
            raise ValueError("it changes nothing; set phase or features")
        return self


class TenantRetrieval(Section):
    """What is otherwise for one tenant; null: as `retrieval` says."""

    enabled: bool | None = None
    """Whether pages are searched."""
    phase: int | None = Field(None, ge=1, le=3)
    """The phase of retrieval."""
    canary: Canary | None = None
    """Another phase, or other switches, for some of its questions."""


class Degradation(Section):
    """When a process of a server leaves a phase of retrieval by itself, and when it comes back."""

    automatic: bool = True
    """Go down a phase, and up again, by what the questions show. Where false, a question still falls through to the
    next phase when one fails."""
    window_s: float = Field(300, gt=0, le=86_400)
    """Seconds over which questions are counted, and that a phase is watched at least before it is judged."""
    min_questions: int = Field(20, ge=1, le=5_000)
    """Questions that a window needs to be judged."""
    max_p95_ms: float = Field(500, gt=0)
    """Milliseconds from the question to its passages; when 5 % take longer, the phase goes down by one."""
    when_still_slow: Literal["disable", "next_phase"] = "disable"
    """What follows when the phase below is too slow for another window: retrieval is left, or the next phase down."""
    max_error_rate: float = Field(0.05, ge=0, lt=1)
    """Share of questions that a phase may fail; above, it goes down by one. When no phase answers that share, retrieval
    is left."""
    quiet_s: float = Field(300, gt=0, le=86_400)
    """Seconds without a change after which the next phase up is tried out."""
    probes: int = Field(3, ge=1, le=100)
    """Questions, one at a time, that a phase must answer well, one after the other, to come back."""
    phase_timeout_s: float = Field(2, gt=0, le=300)
    """Seconds that a search in one phase may take, the model's time excepted; then the next phase is asked. The first
    search in a generation has at least `serving.open_wait_s`."""
    failures: int = Field(3, ge=1, le=1_000)
    """Failures in a row after which questions pass a phase by for `retry_s`."""
    retry_s: float = Field(10, gt=0, le=3_600)
    """Seconds after which one question tries it again."""
    max_hanging: int = Field(16, ge=1, le=1_000)
    """Searches of a tenant that may hang at once; while there are so many no other is begun."""
    cached_answers: int = Field(500, ge=0, le=100_000)
    """Last good answers that are kept in memory for each tenant, for when no phase answers; 0 keeps none."""
    cached_bytes: int = Field(16_000_000, ge=0)
    """Bytes that they may take."""
    cached_max_age_s: float = Field(86_400, gt=0)
    """Seconds after which one is shown no more."""


@dataclass(frozen=True)
class PhaseSettings:
    """What is configured for one tenant's questions."""

    enabled: bool = True
    phase: int = 3
    canary: Canary | None = None


class DocVariables:
    """Reads DOC_RETRIEVAL_ENABLED and DOC_RETRIEVAL_PHASE as keys of the configuration, for all its tenants."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        """`content`: what the file says."""
        self._content = content

    def __call__(self) -> dict[str, Any]:
        """Return the keys that the variables set."""
        given = {key: value for key, name in VARIABLES.items() if (value := os.environ.get(name, "").strip())}
        if not given:
            return {}
        tenants = self._content.get("tenants")
        named = {name: {"retrieval": given} for name in tenants} if isinstance(tenants, Mapping) else {}
        return {"retrieval": given, "tenants": named}
