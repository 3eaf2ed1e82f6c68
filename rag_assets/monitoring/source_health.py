"""The state of sources for `citelock doctor`: whether each can be read now, and the result of its last sync.

Dagster is not imported: a machine that only serves looks at the last syncs alone.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rag_assets.sources.sites.source import NO_DOCUMENTS
from rag_assets.state.records import LastSync, passage_readers, read_last_sync, read_state
from rag_assets.steps.files.composed import GROUP, SCANNED
from rag_serving.artifacts.store import Store
from rag_serving.cli.printing import Finding, age
from rag_serving.config.loading import Config
from rag_serving.config.sources import ConfluenceMcp, Files, Source, last_ticks
from rag_serving.plugins import loaded

if TYPE_CHECKING:
    from rag_assets.sources.reach import Reach

BOUND_S = 20.0
"""For all sources together; what has not answered by then is said not to."""
_OLD = timedelta(days=7)
_TICKS = 3  # of a schedule, that may go by without a sync
_LONGEST = 400
_SHORTEST = 4  # shorter ones occur in other words, and are no secrets
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def examine(config: Config) -> Iterator[Finding]:
    """Yield two findings for each source: the source now, and its last sync; before them, whether OCR is missing."""
    store = Store(config.home)
    if not config.sources:
        yield Finding("sources", "warn", "none is configured", "add one under `sources:`; see docs/configuration.md")
    builds = find_spec("dagster") is not None
    if builds:
        is_wanted = config.documents.ocr.enabled is not False and any(map(reads_pdf, config.sources.values()))
        if is_wanted and SCANNED not in loaded(GROUP):
            yield Finding(
                "ocr", "warn", "OCR is not installed; scanned pages have no text", "install citelock[formats]"
            )
    calls = {key: _look(key, source) for key, source in config.sources.items()} if builds else {}
    reached = answers_within(calls, BOUND_S)
    for key, source in sorted(config.sources.items()):
        if not builds:
            yield Finding(f"source {key}", "ok", "not asked: this machine serves, it does not build")
        else:
            yield _finding(f"source {key}", source, reached.get(key))
        yield _sync_finding(store, key, source)


def reads_pdf(source: Source) -> bool:
    """Return whether a source may have scanned pages."""
    return isinstance(source, Files) or getattr(source, "attachments", "none") == "all"


def answers_within(calls: Mapping[str, Callable[[], Reach]], seconds: float) -> dict[str, Reach]:
    """Call all at once, and return the results that came in time; threads that hang do not keep the process from
    ending."""
    results: queue.SimpleQueue[tuple[str, Reach]] = queue.SimpleQueue()
    for key, call in calls.items():
        threading.Thread(target=lambda key=key, call=call: results.put((key, call())), daemon=True).start()
    answers: dict[str, Reach] = {}
    until = time.monotonic() + seconds
    while len(answers) < len(calls) and (left := until - time.monotonic()) > 0:
        try:
            key, answer = results.get(timeout=left)
        except queue.Empty:
            break
        answers[key] = answer
    return answers


def _look(key: str, source: Source) -> Callable[[], Reach]:
    from rag_assets.sources.reach import Reach, reach  # a machine that only serves lacks the sources' clients

    def look() -> Reach:
        try:
            return reach(key, source)
        except Exception as error:  # one source that breaks must not hide the others
            return Reach("fail", f"unexpected {type(error).__name__}: {error}", f"look at sources.{key}")

    return look


def _finding(name: str, source: Source, answer: Reach | None) -> Finding:
    if answer is None:
        return Finding(name, "fail", f"did not answer within {BOUND_S:.0f} s", "look at the site and the network")
    return Finding(name, answer.state, without_secrets(answer.detail, source), without_secrets(answer.mend, source))


def _sync_finding(store: Store, key: str, source: Source) -> Finding:
    name, last = f"sync {key}", read_last_sync(store.source(key))
    sections = read_state(store, key).sections
    if last is None:
        return Finding(name, "warn", "never synced", f"run `citelock build {key}`")
    detail = _told(last, sections.cut if sections else {}, sections.failed if sections else {})
    readers = passage_readers(store, key)
    if readers.passages and readers.for_nobody == readers.passages:
        why = next(iter((*last.notes, *last.hidden.values())), None) or "see the notes of the sync"
        detail = f"{detail}; nobody may read any of its {readers.passages:,} passages: {why}"
        return Finding(name, "fail", without_secrets(detail, source), f"set sources.{key}.readers, then build")
    detail += f"; {readers.for_everyone:,} of {readers.passages:,} passages are readable for everyone"
    if late := _is_late(last, source):
        return Finding(name, "warn", detail, late.format(key=key))
    notes = [note for note in last.notes if not note.endswith(NO_DOCUMENTS)]
    if last.failed or notes:
        reason = next(iter(last.failed.items()), None)
        more = f"page {reason[0]}: {reason[1]}" if reason else notes[0]
        mend = f"mend it and run `citelock build {key}`"
        return Finding(name, "warn", without_secrets(f"{detail}; {more}", source), mend)
    return Finding(name, "ok", detail)


def _told(last: LastSync, cut: Mapping[str, str], unread: Mapping[str, str]) -> str:
    when = f"{age((datetime.now(UTC) - last.finished_at).total_seconds())} ago" if last.finished_at else "at some time"
    counts = {"excluded": last.excluded, "failed": {**unread, **last.failed}, "hidden": last.hidden, "cut short": cut}
    more = [f"{len(pages):,} {word}" for word, pages in counts.items() if pages]
    return f"complete {when}, {', '.join([f'{last.enumerated:,} pages', *more])}"


def _is_late(last: LastSync, source: Source) -> str | None:
    """Return how to mend a sync that is too long ago, None if it is not."""
    if last.finished_at is None or last.fingerprint is not None:  # what a build can distinguish is not synced in vain
        return None
    now = datetime.now(UTC)
    if source.schedule:
        is_late = last.finished_at < last_ticks(source.schedule, now, _TICKS)[-1]
        mend = f"its schedule ticked {_TICKS} times since: start Dagster (`make up`), or run `citelock build {{key}}`"
        return mend if is_late else None
    return "run `citelock build {key}`, or give it a schedule" if now - last.finished_at > _OLD else None


def without_secrets(text: str, source: Source) -> str:
    """Return the text in one line without credentials: values of environment variables, arguments, parts of
    addresses."""
    auth = getattr(source, "auth", None)
    named = [getattr(holder, field, None) for holder in (auth, source) for field in ("user_env", "token_env")]
    for name in [name for name in [*named, *getattr(source, "env", [])] if name]:
        value = os.environ.get(name, "").strip()
        text = text.replace(value, "***") if len(value) >= _SHORTEST else text
    if isinstance(source, ConfluenceMcp):
        text = text.replace(" ".join(source.command), source.command[0]) if source.command else text
        text = text.replace(source.url, source.url.partition("?")[0]) if source.url else text
    text = " ".join(_USER_IN_URL.sub("", text).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
