"""People in the audit log: random pseudonyms, and a key for each person that can be discarded.

A row has a person's random pseudonym, and texts sealed with that person's own key. One row of `audit_persons` links
person, pseudonym and key. When it is deleted, rows keep their bytes, so that the chain still verifies, but persons and
questions can no longer be recovered.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from citelock_governance.audit.tables import PERSONS
from rag_serving.artifacts.secret import SealError, derived_key, seal, unseal

_DIGEST, _SEALING, _NOBODY = "audit persons", "audit person keys", "audit callers without a name"
_KEY_BYTES = 32
_ACTOR_BYTES = 12
_HASH_CHARS = 32
_MOST_KEYS = 1_000

UserPolicy = Literal["hash", "id", "none"]


@dataclass(frozen=True)
class Person:
    """A person's pseudonym, None for nobody, and the key of what is kept of them."""

    actor: str | None
    key: bytes

    def query_hash(self, query: str) -> str:
        """Return the keyed hash of a question; without the person's key it cannot be tried out."""
        return hmac.new(self.key, query.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_HASH_CHARS]

    def sealed(self, text: str, beside: bytes) -> str:
        """Return a text that only this person's key opens, beside the same bytes."""
        return seal(self.key, text, beside)

    def opened(self, sealed: str, beside: bytes) -> str | None:
        """Return a sealed text; None if it was sealed with another key, or altered."""
        try:
            return unseal(self.key, sealed, beside)
        except SealError:
            return None


class Persons:
    """The people of one tenant."""

    def __init__(self, home: Path, tenant: str, policy: UserPolicy = "hash") -> None:
        """Raises SecretError if the installation's secret cannot be used."""
        self._tenant, self._policy = tenant, policy
        self._digest_key, self._sealing_key = derived_key(home, _DIGEST), derived_key(home, _SEALING)
        self._nobody = Person(None, derived_key(home, f"{_NOBODY} of {tenant}"))
        self._keys: dict[str, bytes] = {}  # by their sealed form, which the database still has to have

    def of(self, connection: Connection, users: Collection[str | None]) -> Mapping[str | None, Person]:
        """Return each user's pseudonym and key, made now if there is none yet."""
        named = set() if self._policy == "none" else {user for user in users if user}
        digests = {self._digest(user): user for user in sorted(named)}
        found = self._found(connection, digests)
        if missing := [digest for digest in digests if digests[digest] not in found]:
            insert: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
            rows = [self._made(digest, digests[digest]) for digest in missing]
            connection.execute(insert.insert(PERSONS).on_conflict_do_nothing(), rows)
            found |= self._found(connection, {digest: digests[digest] for digest in missing})
        return {user: found.get(user, self._nobody) if user else self._nobody for user in users}

    def forget(self, connection: Connection, user: str) -> int:
        """Delete a user's link to rows, and the key that opens them; return how many there were, 0 or 1."""
        mine = PERSONS.c.tenant == self._tenant, PERSONS.c.person == self._digest(user)
        return int(connection.execute(delete(PERSONS).where(*mine)).rowcount)

    def known(self, connection: Connection, actor: str | None) -> tuple[Person, str | None] | None:
        """Return the person behind a pseudonym and, if it was kept, the user; None if they were forgotten."""
        if actor is None:
            return self._nobody, None
        query = select(PERSONS).where(PERSONS.c.tenant == self._tenant, PERSONS.c.actor == actor)
        row = connection.execute(query).mappings().first()
        if row is None:
            return None
        try:
            name = unseal(self._sealing_key, row["name"], self._beside(row["person"], "name")) if row["name"] else None
            return self._person(dict(row)), name
        except SealError:
            return None

    def _found(self, connection: Connection, digests: Mapping[str, str]) -> dict[str, Person]:
        query = select(PERSONS).where(PERSONS.c.tenant == self._tenant, PERSONS.c.person.in_(list(digests)))
        return {digests[row["person"]]: self._person(dict(row)) for row in connection.execute(query).mappings()}

    def _person(self, row: Mapping[str, Any]) -> Person:
        sealed = row["secret"]
        if sealed not in self._keys:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[sealed] = b64decode(unseal(self._sealing_key, sealed, self._beside(row["person"], row["actor"])))
        return Person(row["actor"], self._keys[sealed])

    def _made(self, digest: str, user: str) -> dict[str, Any]:
        actor = secrets.token_hex(_ACTOR_BYTES)
        key = b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
        return {
            "tenant": self._tenant,
            "person": digest,
            "actor": actor,
            "secret": seal(self._sealing_key, key, self._beside(digest, actor)),
            "name": seal(self._sealing_key, user, self._beside(digest, "name")) if self._policy == "id" else None,
        }

    def _digest(self, user: str) -> str:
        content = f"{self._tenant}\0{user}".encode("utf-8", "surrogatepass")
        return hmac.new(self._digest_key, content, hashlib.sha256).hexdigest()

    def _beside(self, digest: str, what: str) -> bytes:
        return f"{self._tenant}\0{digest}\0{what}".encode()
