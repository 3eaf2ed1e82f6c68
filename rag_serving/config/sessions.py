"""The section `sessions` of `config/app.yaml`.

Belongs here: how conversations are read, and whether they are kept. Does not belong here: the other sections
(`sections`).
"""

from __future__ import annotations

from pydantic import Field

from rag_serving.config.sources import Section


class Sessions(Section):
    """Conversations: how a question is read after those before it, and whether they are stored."""

    store: bool = False
    """Keep the questions and answers of sessions that clients begin (`POST /v1/sessions`), encrypted unless
    `telemetry.store_questions` is set, beside the telemetry."""
    retention_days: int = Field(90, ge=1)
    """Days after its last question when a session is deleted."""
    most_sessions: int = Field(200, ge=1, le=100_000)
    """Sessions that are kept of one user; a further one takes the place of the oldest."""
    most_turns: int = Field(500, ge=5, le=100_000)
    """Questions that are kept of one session; a further one takes the place of the oldest."""
    rewrite: bool = True
    """Where a language model writes answers, let it also complete questions that may lean on earlier ones."""
    rewrite_timeout_s: float = Field(5, gt=0, le=60)
    """Seconds that may take; after them rules complete the question."""
