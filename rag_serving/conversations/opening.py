"""The stored sessions of an installation, where it keeps any.

Belongs here: opening them, only where they are used: who asks in a terminal waits for no database. Does not belong
here: keeping them (`store`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from rag_serving.conversations.store import SessionStore


def open_sessions(config: Config, tenant: str) -> SessionStore | None:
    """Return the sessions of a tenant, or None where none are stored. Nothing is opened yet."""
    if not config.sessions.store:
        return None
    from rag_serving.conversations.store import SessionStore

    return SessionStore(config, tenant, lambda: datetime.now(UTC))
