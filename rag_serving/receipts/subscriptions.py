"""Subscriptions of users to changes of an answer: sealed files in the tenant's folder of the home. Groups that a
caller's token named count as long as a session's would (`serving.session_hours`), and again from each time that the
caller subscribes; the own name and synchronized groups count always."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SealError, derived_key, seal, unseal
from rag_serving.artifacts.store import Store, StoreError, read_text, write_text
from rag_serving.config.loading import Config
from rag_serving.receipts.receipt import ReceiptError, Secrecy

if TYPE_CHECKING:
    from rag_serving.receipts.store import ReceiptStore

FOLDER = "followers"
MOST = 100
"""Answers that one caller may follow."""
_PURPOSE = "receipt subscriptions"

_log = logging.getLogger(__name__)


class TooManyError(ReceiptError):
    """A caller follows as many answers as one may."""


@dataclass(frozen=True)
class Subscription:
    """A user follows an answer. `state`: of the answer in the last notice; `notices`: how many were sent."""

    receipt: str
    subscriber: str  # keyed digest of who it is (`secrecy`)
    since: str
    user: str | None
    groups: tuple[str, ...]
    state: str
    notices: int = 0

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.receipt}-{self.subscriber}"


class Subscriptions:
    """The subscribers of one tenant's answers. Safe to use from several processes."""

    def __init__(self, config: Config, tenant: str) -> None:
        self._config, self._tenant, self._secrecy = config, tenant, Secrecy(config.home)
        self._folder = Store(config.home).tenant(tenant) / FOLDER
        self._members = Memberships(config)

    def add(self, principal: Principal, receipt: str, state: str) -> None:
        """Subscribe a caller, who may see the receipt, to every state but this. Raises TooManyError: of too many."""
        now, user = datetime.now(UTC).isoformat(timespec="milliseconds"), principal.user
        added = Subscription(receipt, self._secrecy.asker(principal), now, user, tuple(principal.groups), state)
        his = {file.name for file in self._folder.glob(f"*-{added.subscriber}")}
        if len(his | {added.name}) > MOST:
            raise TooManyError(f"one caller can follow {MOST} answers")
        self._write(added)

    def remove(self, principal: Principal, receipt: str) -> None:
        """End the subscription of a caller, if there is one."""
        for file in self._folder.glob(f"*-{self._secrecy.asker(principal)}"):
            if file.name.startswith(f"{receipt}-"):
                file.unlink(missing_ok=True)

    def note_sent(self, one: Subscription, state: str) -> None:
        """Record that a notice of a state was sent, unless the subscription has ended."""
        if (self._folder / one.name).exists():
            self._write(replace(one, state=state, notices=one.notices + 1))

    def __iter__(self) -> Iterator[Subscription]:
        """Yield the subscriptions; expired ones are deleted, altered ones skipped."""
        oldest = datetime.now(UTC) - timedelta(days=self._config.telemetry.retention_days)
        for file in sorted(self._folder.glob("*-*")):
            try:
                values = json.loads(unseal(self._key(), read_text(file), file.name.encode()))
                one = Subscription(**{**values, "groups": tuple(values["groups"])})
            except (SealError, StoreError) as error:
                _log.warning("%s is no subscription that was made here: %s", file, error)
                continue
            if datetime.fromisoformat(one.since) < oldest:
                file.unlink(missing_ok=True)
            else:
                yield one

    def principal(self, one: Subscription) -> Principal:
        """Return the subscriber with the current rights."""
        age = datetime.now(UTC) - datetime.fromisoformat(one.since)
        named = one.groups if age <= timedelta(hours=self._config.serving.session_hours) else ()
        return self._members.with_groups(Principal(self._tenant, one.user, frozenset(named)))

    def receipt(self, one: Subscription, receipts: ReceiptStore) -> dict[str, Any]:
        """Return the receipt that a subscriber asked for, or that is shared. Raises ReceiptError: it is neither."""
        receipt = receipts.get(one.receipt, self._tenant)
        if receipt.get("asker") != one.subscriber and not receipts.is_shared(one.receipt, self._tenant):
            raise ReceiptError(f"receipt {one.receipt!r} is of another asker")
        return self._secrecy.opened(receipt)

    def _write(self, one: Subscription) -> None:
        write_text(self._folder / one.name, seal(self._key(), json.dumps(asdict(one)), one.name.encode()))

    def _key(self) -> bytes:
        return derived_key(self._config.home, _PURPOSE)


def forget_subscriber(home: Path, tenant: str, subscriber: str) -> None:
    """Delete all subscriptions of a user."""
    for file in (Store(home).tenant(tenant) / FOLDER).glob(f"*-{subscriber}"):
        with suppress(FileNotFoundError):
            file.unlink()
