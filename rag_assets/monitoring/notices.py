"""Notices to users who follow an answer, when its pages no longer confirm it.

Belongs here: which answers of a tenant changed, for each subscriber as he may read now, and delivery by e-mail or
webhook: bounded, at least once, with an id that is the same when a notice is sent again. Does not belong here: what
changed (`rag_serving.checking.guarantee`), Dagster.

A user who can no longer read the cited pages, or no longer see the answer, gets a notice without any text of it.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from evals.reports.report import page_url
from rag_assets.monitoring.alerts import post
from rag_serving.artifacts.store import Store, write_text
from rag_serving.checking.guarantee import MOST, ChangedStatement, changed_statements, cited_chunks, state_of
from rag_serving.config.loading import Config
from rag_serving.config.sections import Monitoring
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.receipts.proofs import Proofs
from rag_serving.receipts.receipt import ReceiptError, ReceiptsAwayError, Secrecy, text_hash
from rag_serving.receipts.store import ReceiptStore, open_receipts
from rag_serving.receipts.subscriptions import Subscription, Subscriptions

MOST_NOTICES = 200
"""Notices of one call; the others are sent by the next."""
MOST_FILES = 10_000
_TIME_S = 20.0
_HIDDEN = "hidden"
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,190}", re.ASCII)
_TEXTS = {
    "answer_changed": "An answer that you follow has changed: its pages say something else now.",
    "answer_restored": "An answer that you follow is confirmed by its pages again.",
    "answer_not_verifiable": "An answer that you follow can no longer be verified for you.",
}


@dataclass(frozen=True)
class NoticeCounts:
    """Result of a comparison of a tenant's followed answers with its pages."""

    followed: int = 0
    broken: int = 0
    sent: int = 0
    undelivered: int = 0

    @property
    def line(self) -> str:
        """Return the counts in words."""
        late = f", {self.undelivered} not delivered yet" if self.undelivered else ""
        broken = f"{self.broken} of {self.followed} followed answers no longer match their pages"
        return f"{broken}; {self.sent} notices sent{late}"


def notify(config: Config, tenant: str) -> NoticeCounts:
    """Send the followers of a tenant's answers the changes since their last notice.

    Raises:
        ReceiptError: the database of receipts cannot be used.
        UnpublishedError: nothing is published.
    """
    subscriptions, until = Subscriptions(config, tenant), time.monotonic() + _TIME_S
    if not (followed := list(subscriptions)):
        return NoticeCounts()
    broken = sent = left = 0
    with (
        closing(open_receipts(config)) as receipts,
        closing(CurrentGeneration(Store(config.home), tenant, config)) as now,
    ):
        proofs = Proofs(config, tenant, now, receipts, Secrecy(config.home))
        for one in followed:
            seen = _seen(one, subscriptions, receipts, proofs, now)
            state = _HIDDEN if seen is None else state_of(seen[1])
            broken += bool(state)
            if state == one.state:
                continue
            is_due = sent + left < MOST_NOTICES and time.monotonic() < until
            if is_due and _is_delivered(_notice(config, one, seen, state), config.monitoring):
                subscriptions.note_sent(one, state)
                sent += 1
            else:
                left += 1
    return NoticeCounts(len(followed), broken, sent, left)


def _seen(
    one: Subscription,
    subscriptions: Subscriptions,
    receipts: ReceiptStore,
    proofs: Proofs,
    published: CurrentGeneration,
) -> tuple[str, list[ChangedStatement]] | None:
    """Return the question of a followed answer, and the changes; None if its follower may not see it now."""
    try:
        receipt = subscriptions.receipt(one, receipts)
    except ReceiptsAwayError:
        raise
    except ReceiptError:
        return None
    if not proofs.open_to(principal := subscriptions.principal(one), [cited_chunks(receipt)])[0]:
        return None
    with published.acquire() as generation:
        return receipt["question"], changed_statements(receipt, generation.for_reader(principal))


def _notice(
    config: Config, one: Subscription, seen: tuple[str, Sequence[ChangedStatement]] | None, state: str
) -> dict[str, Any]:
    event, shown = "answer_not_verifiable", dict[str, Any]()
    if seen is not None:
        event = "answer_changed" if seen[1] else "answer_restored"
        shown = {"question": seen[0], "changes": [asdict(each) for each in seen[1][:MOST]]}
    return {
        "event": event,
        "id": text_hash("\0".join((one.name, one.since, str(one.notices), state))),
        "text": _TEXTS[event],
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "user": one.user,
        "receipt_id": one.receipt,
        "link": f"{page_url(config.serving)}a/{one.receipt}",
        **shown,
    }


def _is_delivered(notice: Mapping[str, Any], monitoring: Monitoring) -> bool:
    """Return whether every channel took a notice."""
    is_posted = not monitoring.notice_url_env or _post(notice, monitoring.notice_url_env, monitoring)
    return is_posted and (not monitoring.notice_folder or _write_mail(notice, monitoring.notice_folder))


def _post(notice: Mapping[str, Any], variable: str, monitoring: Monitoring) -> bool:
    body, secret = json.dumps(notice, ensure_ascii=False), os.environ.get(monitoring.notice_secret_env, "").strip()
    signed = hmac.new(secret.encode(), body.encode(), "sha256").hexdigest()
    headers = {"X-Hub-Signature": f"sha256={signed}"}
    return bool(secret) and post(variable, body, monitoring.alert_timeout_s, headers) == "taken"


def _write_mail(notice: Mapping[str, Any], folder: Path) -> bool:
    """Write a notice as an e-mail that has its id; return whether it could be."""
    mail, user = EmailMessage(), " ".join(str(notice["user"] or "").split())
    mail["From"], mail["X-Citelock-User"] = "Citelock <citelock@localhost>", user
    mail["Date"], mail["Subject"] = format_datetime(datetime.now(UTC)), notice["text"]
    mail["Message-ID"] = f"<{notice['id']}@citelock>"
    if _ADDRESS.fullmatch(user):
        mail["To"] = user
    mail.set_content("\n\n".join(_lines(notice)) + "\n")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sum(1 for _ in folder.glob("*.eml")) >= MOST_FILES:
            return False
        write_text(folder / f"{notice['id']}.eml", mail.as_string())
    except OSError:
        return False
    return True


def _lines(notice: Mapping[str, Any]) -> list[str]:
    lines = [notice["text"], *([f"Question: {notice['question']}"] if "question" in notice else [])]
    for one in notice.get("changes", ()):
        now = (
            f"Now, {one['title']}:\n{one['after']}\n{one['url']}" if one["after"] else "Now: the page does not say it."
        )
        lines += [f"Before:\n{one['before']}", now]
        if any(values := (one["values_before"], one["values_after"])):
            lines.append("Value: " + " -> ".join(", ".join(side) or "none" for side in values))
    return [*lines, f"The answer: {notice['link']}"]
