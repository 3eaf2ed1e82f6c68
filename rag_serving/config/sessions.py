"""The section `sessions` of `config/app.yaml`.

Belongs here: how conversations are read, and whether they are kept. Does not belong here: the other sections
(`sections`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import Section


class Sessions(Section):
    """Conversations: how follow-up questions are read, and whether sessions are stored."""

    store: bool = False
    """Store sessions that clients start, encrypted."""
    retention_days: int = Field(90, ge=1)
    """Days after its last question when a session is deleted."""
    most_sessions: ClassVar[int] = 200  # sessions stored for one user; a new one replaces the oldest
    most_turns: ClassVar[int] = 500  # questions stored in one session; a new one replaces the oldest
    rewrite: bool = True
    """Let a language model complete follow-up questions."""
    rewrite_timeout_s: ClassVar[float] = 5  # seconds that this may take; after that, rules complete the question
