"""A question asked in a stored session: its turns before, and keeping it afterwards. No question fails for either.

Belongs here: flags of what could not be read or kept. Does not belong here: rows (`store`), asking (`pipeline`).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from rag_serving.access.principals import Principal
from rag_serving.conversations.store import SessionError, SessionStore
from rag_serving.conversations.stored import Exchange
from rag_serving.conversations.turns import Conversation
from rag_serving.records.answers import Answer

SESSION_UNKNOWN, SESSION_UNAVAILABLE = "session_unknown", "session_unavailable"

_log = logging.getLogger(__name__)


class Remembered:
    """One question of a session, or of none."""

    def __init__(self, store: SessionStore | None, principal: Principal, session_id: str | None) -> None:
        """`store`: None where no sessions are stored; `session_id`: None where the asker named none."""
        self._store, self._principal, self._session_id = store, principal, session_id
        self._flag: str | None = None

    def conversation(self, given: Conversation) -> Conversation:
        """Return the turns before the question: those that its asker gave, else those of the session."""
        if self._session_id is None:
            return given
        found: Conversation | None = None
        try:
            found = self._store.conversation(self._principal, self._session_id) if self._store else None
            flag = SESSION_UNKNOWN if found is None else None
        except SessionError as error:
            flag = SESSION_UNAVAILABLE
            _log.warning("%s: %s", flag, error)
        self._flag = flag
        return given if given.turns or found is None else found

    def kept(self, exchange: Exchange) -> Answer:
        """Keep the question with its answer; return the answer with the session's id, or a flag that says why not."""
        answer, flag = exchange.answer, self._flag
        if self._session_id is None:
            return answer
        if flag is None and self._store:
            try:
                is_kept = self._store.keep(self._principal, self._session_id, exchange)
                flag = None if is_kept else SESSION_UNKNOWN
            except SessionError as error:
                flag = SESSION_UNAVAILABLE
                _log.warning("%s: %s", flag, error)
        if flag is None:
            return replace(answer, session_id=self._session_id)
        return replace(answer, flags=(*answer.flags, flag))
