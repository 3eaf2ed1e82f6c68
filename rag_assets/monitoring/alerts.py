"""Alerts of overdue sources, sources that are back and failing builds, and notices to users who follow an answer that
its pages no longer confirm. A user who can no longer read them gets a notice without any text."""

from __future__ import annotations

import hmac
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from evals.reports.report import page_url
from rag_assets.state.records import last_sync
from rag_serving.artifacts.store import Store, write_text
from rag_serving.checking.guarantee import MOST, ChangedStatement, changed_statements, cited_chunks, state_of
from rag_serving.config.loading import Config
from rag_serving.config.sections import Monitoring
from rag_serving.config.sources import Freshness, judge
from rag_serving.escaping.redaction import redacted_values
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
    """Send the followers of a tenant's answers the changes since their last notice. Raises ReceiptError: the database
    of receipts cannot be used. Raises UnpublishedError: nothing is published."""
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
    lines = [notice["text"], *([f"Question: {notice['question']}"] if "question" in notice else [])]
    for one in notice.get("changes", ()):
        now = [f"Now, {one['title']}:" if one["title"] else "Now:", one["after"], one["url"]]  # a set has no title
        lines += [
            f"Before:\n{one['before']}",
            "\n".join(filter(None, now)) if one["after"] else "Now: the page does not say it.",
        ]
        if any(values := (one["values_before"], one["values_after"])):
            lines.append("Value: " + " -> ".join(", ".join(side) or "none" for side in values))
    mail.set_content("\n\n".join([*lines, f"The answer: {notice['link']}"]) + "\n")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sum(1 for _ in folder.glob("*.eml")) >= MOST_FILES:
            return False
        write_text(folder / f"{notice['id']}.eml", mail.as_string())
    except OSError:
        return False
    return True


REMIND = timedelta(hours=24)
"""How often somebody is told again of a source that stays overdue."""
ERROR_CHARS, NAMED = 500, 20


class WatchedSource(BaseModel):
    """The memory of a source between two checks."""

    model_config = ConfigDict(frozen=True)

    known_since: datetime
    overdue: bool = False
    alerted_at: datetime | None = None


class SourceVerdict(BaseModel):
    """A source as it is now, and what of that is new."""

    model_config = ConfigDict(frozen=True)

    source: str
    freshness: Freshness
    changed: bool  # since the last look
    alert: bool


_MEMORY = TypeAdapter(dict[str, WatchedSource])


def read_memory(cursor: str | None) -> dict[str, WatchedSource]:
    """Return the memory of the last check; empty if unreadable."""
    try:
        return _MEMORY.validate_json(cursor or "{}")
    except ValidationError:
        return {}


def write_memory(memory: Mapping[str, WatchedSource]) -> str:
    return _MEMORY.dump_json(dict(memory), exclude_none=True).decode()


def look(
    config: Config, store: Store, syncing: Collection[str], memory: Mapping[str, WatchedSource], now: datetime
) -> tuple[list[SourceVerdict], dict[str, WatchedSource]]:
    """Judge every source, and return the verdicts with the new memory."""
    verdicts, remembered = [], {}
    for key, source in sorted(config.sources.items()):
        before = memory.get(key, WatchedSource(known_since=now))
        freshness = judge(
            source,
            config.monitoring,
            now,
            last_sync=last_sync(store, key),
            known_since=before.known_since,
            syncing=key in syncing,
        )
        is_new = before.alerted_at is None or now - before.alerted_at >= REMIND
        alert = is_new if freshness.overdue else before.overdue
        verdicts.append(
            SourceVerdict(source=key, freshness=freshness, changed=freshness.overdue != before.overdue, alert=alert)
        )
        alerted_at = now if alert else before.alerted_at if freshness.overdue else None
        remembered[key] = WatchedSource(
            known_since=before.known_since, overdue=freshness.overdue, alerted_at=alerted_at
        )
    return verdicts, remembered


def is_nth_alert(failures: int) -> bool:
    """Return whether the n-th failure in a row raises an alert: the first, the second, the fourth, the eighth …"""
    return failures > 0 and failures & (failures - 1) == 0


def freshness_events(config: Config, verdicts: Sequence[SourceVerdict], now: datetime) -> list[dict[str, Any]]:
    """Return one event for all sources that became or stay overdue, and one for all that are back."""
    alerts = [verdict for verdict in verdicts if verdict.alert]
    groups = {
        "sources_overdue": [verdict for verdict in alerts if verdict.freshness.overdue],
        "sources_synced_again": [verdict for verdict in alerts if not verdict.freshness.overdue],
    }
    return [_freshness_event(name, config, group, now) for name, group in groups.items() if group]


def _freshness_event(name: str, config: Config, verdicts: Sequence[SourceVerdict], now: datetime) -> dict[str, Any]:
    state = "overdue" if name == "sources_overdue" else "synced again"
    first, count = verdicts[0], len(verdicts)
    keys = ", ".join(verdict.source for verdict in verdicts[:NAMED]) + (" …" if count > NAMED else "")
    about = f"source {first.source} is" if count == 1 else f"{count} sources are"
    return {
        "event": name,
        "text": f"{about} {state}: {first.freshness.detail if count == 1 else keys}",
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "sources": [
            {
                "source": verdict.source,
                "tenant": config.sources[verdict.source].tenant,
                "last_sync": verdict.freshness.last_sync.isoformat(timespec="seconds")
                if verdict.freshness.last_sync
                else None,
                "detail": verdict.freshness.detail,
            }
            for verdict in verdicts
        ],
    }


def failure_event(job: str, partition: str, run_id: str, error: str, failures: int, now: datetime) -> dict[str, Any]:
    """Return the event of a run that failed; `failures`: how many in a row, this one included."""
    error = error if len(error) <= ERROR_CHARS else f"{error[: ERROR_CHARS - 1]}…"
    times = f", {failures} times in a row" if failures > 1 else ""
    return {
        "event": "run_failed",
        "text": f"{job} of {partition} failed{times}: {error}",
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "job": job,
        "partition": partition,
        "run_id": run_id,
        "error": error,
        "failures_in_a_row": failures,
    }


Event = Mapping[str, Any]
"""`event`, `text` (a line for people), `time`, and what it is about."""


def send(event: Event, monitoring: Monitoring) -> list[str]:
    """Hand an event to each configured hook and return the outcome; nothing is raised."""
    body, limit = json.dumps(redacted_values(event), ensure_ascii=False), monitoring.alert_timeout_s
    results = []
    if monitoring.alert_command:
        results.append(f"command {monitoring.alert_command[0]}: {_run(monitoring.alert_command, body, limit)}")
    if monitoring.alert_url_env:
        results.append(f"webhook of {monitoring.alert_url_env}: {post(monitoring.alert_url_env, body, limit)}")
    return results


def _run(command: list[str], body: str, limit: float) -> str:
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return f"could not be started ({error})"
    with process:
        try:
            process.communicate(body.encode(), timeout=limit)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"took longer than {limit:g} s and was ended"
    return "taken" if process.returncode == 0 else f"failed with status {process.returncode}"


def post(variable: str, body: str, limit: float, headers: Mapping[str, str] | None = None) -> str:
    """Post JSON to the address in a variable and return the result; the address is a secret, and kept out of it."""
    url = os.environ.get(variable, "").strip()
    if not url:
        return "the variable is empty"
    results: list[str] = []
    # A server that answers one byte a second stays below every limit of the client.
    thread = threading.Thread(target=lambda: results.append(_posted(url, body, limit, headers or {})), daemon=True)
    thread.start()
    thread.join(limit)
    return results[0] if results else f"did not answer within {limit:g} s"


def _posted(url: str, body: str, limit: float, more: Mapping[str, str]) -> str:
    import httpx

    headers = {"content-type": "application/json", **more}
    try:
        with httpx.Client(timeout=limit) as client, client.stream("POST", url, content=body, headers=headers) as reply:
            return "taken" if reply.is_success else f"answered {reply.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"could not be reached ({type(error).__name__})"
