"""The phases of retrieval: which one is configured, when a server leaves one by itself, and switches of some spaces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from rag_serving.config.sources import Section

PHASES = (3, 2, 1)
"""3 searches by words and meaning, 2 scores chunks by keywords, 1 scores documents by keywords."""
VARIABLES: Mapping[str, str] = {"enabled": "DOC_RETRIEVAL_ENABLED", "phase": "DOC_RETRIEVAL_PHASE"}
"""Other names of the environment for `retrieval.enabled` and `retrieval.phase`; they hold for every tenant."""


class Canary(Section):
    """Other switches for the questions to some spaces."""

    gone: ClassVar[Mapping[str, str]] = {
        "phase": "of whole tenants: tenants.NAME.retrieval.phase",
        "share": "replaced by spaces: a canary is the questions to some spaces",
    }
    features: dict[str, bool] = Field(min_length=1)
    """Switches of `features` that differ for these questions."""
    spaces: list[str] = Field(min_length=1)
    """Questions that a filter, or `space:KEY`, restricts to these spaces."""


class TenantRetrieval(Section):
    """Settings for one tenant; null: as `retrieval` says."""

    enabled: bool | None = None
    """Search the pages."""
    phase: int | None = Field(None, ge=1, le=3)
    """The phase of retrieval."""
    canary: Canary | None = None
    """Other switches for some of its questions."""


class Degradation(Section):
    """When a server process automatically changes to another phase of retrieval, and when it changes back."""

    automatic: bool = True
    """Change phases by failures and times of questions. If false, a question still uses the next lower phase when one
    fails."""
    # Seconds over which questions are counted; also the shortest time before a phase is judged.
    window_s: ClassVar[float] = 300
    min_questions: ClassVar[int] = 20  # questions that a window needs before the phase is judged
    max_p95_ms: float = Field(500, gt=0)
    """95th percentile of retrieval, without the reranker, that lowers the phase."""
    when_still_slow: ClassVar[str] = "disable"  # if the lower phase is slow too
    # Share of failed questions that lowers the phase. If every phase exceeds it, retrieval is switched off.
    max_error_rate: ClassVar[float] = 0.05
    quiet_s: ClassVar[float] = 300  # seconds until the next higher phase is tried
    probes: ClassVar[int] = 3  # questions the higher phase must answer well, one after another
    phase_timeout_s: float = Field(2, gt=0, le=300)
    """Seconds that a search in one phase may take. Then the next lower phase is used. The first search in a generation
    has at least 5 s."""
    failures: ClassVar[int] = 3  # consecutive failures after which questions skip a phase for `retry_s`
    retry_s: ClassVar[float] = 10  # seconds after which one question tries the phase again
    # Searches of a tenant that may hang at the same time. At this number no further one is started.
    max_hanging: ClassVar[int] = 16
    cached_answers: ClassVar[int] = 500  # good answers kept for each tenant for when every phase fails; 0: none
    cached_bytes: ClassVar[int] = 16_000_000  # bytes that these answers may take
    cached_max_age_s: ClassVar[float] = 86_400  # seconds after which such an answer is no longer shown


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
