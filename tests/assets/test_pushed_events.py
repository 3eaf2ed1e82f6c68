"""Events of a living wiki, most of them spoiled, between two processes that are killed: what comes of them in the end.

`CITELOCK_PUSH_EVENTS=1000 pytest -s` prints how long after its event a change was cited.
"""

from __future__ import annotations

import hmac
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Request
from sources.stand_in_site import page
from support.building import build
from support.envelopes import Wiki
from support.forked import forked
from support.looking import look_until_killed
from support.server_process import Server, serving
from support.waiting import wait_until

from rag_serving.artifacts.schema import CHUNKS, PAGES
from rag_serving.artifacts.store import Store, read_table
from rag_serving.documents.noted import NotedPages

EVENTS = int(os.environ.get("CITELOCK_PUSH_EVENTS", "12"))
MEASURED = max(2, EVENTS // 20)
SECRET = "a secret that the wiki shares"
GROUPS = ("hq", "ops", "staff")
KINDS = ("edit", "edit", "create", "move", "trash", "restore", "restrict", "open", "label", "leave", "come")
FAULTS = ("none", "twice", "lost", "late", "forged", "unsigned", "unknown", "elsewhere", "storm")


class BusyWiki(StandIn):
    """A wiki that is changed while it is read: one of the two at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__("datacenter")
        self.lock = threading.RLock()
        self.folder = folder
        self.number = 100

    def answer(self, request: Request, authorization: str | None) -> Answer:
        with self.lock:
            return super().answer(request, authorization)

    def of(self, status: str, space: str = "ENG") -> list[str]:
        return [
            one["id"] for one in self.site.pages.values() if (one["status"], one["space"]["key"]) == (status, space)
        ]

    def text(self, page_id: str) -> str:
        self.number += 1
        return f"<p>The crane of berth {page_id} lifts {self.number} tons.</p>"

    def change(self, chance: random.Random, kind: str) -> str:
        """Do one thing; the page that an event tells of."""
        site, current = self.site, self.of("current")
        one, other = chance.sample(current, 2)
        match kind:
            case "edit":
                site.edit(one, body=self.text(one))
            case "create":
                self.number += 1
                other, one = one, str(self.number)
                site.create(one, other, body=self.text(one))
            case "move" if one not in site.lineage(other):
                site.move(one, *site.lineage(other))
            case "trash" if len(current) > 10:
                site.delete(one)
            case "restore" if trashed := self.of("trashed"):
                one = chance.choice(trashed)
                site.restore(one)
            case "restrict":
                site.restrict(one, groups=[chance.choice(GROUPS)])
            case "open":
                site.restrict(one)
            case "label":
                site.label(one, chance.choice(GROUPS))
            case "leave" if len(current) > 10:
                site.pages[one]["space"]["key"] = "HQ"
            case "come" if away := self.of("current", "HQ"):
                one = chance.choice(away)
                site.pages[one]["space"]["key"] = "ENG"
        return one


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BusyWiki]:
    with BusyWiki(tmp_path) as stand_in:
        stand_in.site.put(*(page(number, body=stand_in.text(str(number))) for number in range(1, 21)))
        stand_in.site.put(page(90, space="HQ"), page(91, space="HQ", groups=["hq"]))
        yield stand_in


class Hook:
    """Where the wiki sends its events; a server that is started anew has another address."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.replies: set[tuple[int, bytes]] = set()

    def send(self, page_id: str, *, key: str = SECRET, signed: bool = True) -> float:
        """Send one event; when that was."""
        now = time.time()
        content = {"timestamp": int(now * 1000), "event": "page_updated", "page": {"id": int(page_id)}}
        body = json.dumps(content).encode()
        headers = {"X-Hub-Signature": f"sha256={hmac.new(key.encode(), body, 'sha256').hexdigest()}"} if signed else {}
        reply = httpx.post(f"{self.server.url}/v1/hooks/confluence/eng", content=body, headers=headers, timeout=60)
        assert reply.status_code == (202 if signed and key == SECRET else 401), reply.text
        self.replies.add((reply.status_code, reply.content))
        return now

    def spoiled(self, chance: random.Random, fault: str, page_id: str, late: list[str]) -> None:
        """Send what becomes of an event."""
        match fault:
            case "none" | "twice":
                for _ in range(1 if fault == "none" else 3):
                    self.send(page_id)
            case "late":
                late.append(page_id)
                chance.shuffle(late)
            case "forged":
                self.send(page_id, key="guessed")
            case "unsigned":
                self.send(page_id, signed=False)
            case "unknown" | "elsewhere":
                self.send({"unknown": "424242", "elsewhere": chance.choice(["90", "91"])}[fault])
            case "storm":
                for number in range(1, 40):
                    self.send(str(number))
        while late and chance.random() < 0.3:
            self.send(late.pop())


class Watching:
    """The process that reads what is noted."""

    def __init__(self, wiki: Wiki) -> None:
        self._config_path = wiki.config_path
        self.start()

    def start(self) -> None:
        self._process = forked(look_until_killed, self._config_path, dict(os.environ))

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def configured(wiki: Wiki, site: BusyWiki) -> Wiki:
    eng: dict[str, Any] = {"kind": "confluence", "tenant": "demo", "base_url": site.url, "space": "ENG"}
    eng |= {"readers": "everyone", "webhook": {"secret_env": "HOOK_OF_ENG"}, "max_deleted_share": 1}
    wiki.configure(sources={"eng": {**eng, "max_requests_per_s": 1000}})
    return wiki


def cited_after(site: BusyWiki, hook: Hook, page_id: str) -> float:
    """Seconds from the event of an edit to an answer with its words."""
    with site.lock:
        site.site.edit(page_id, body=site.text(page_id))
        words = f"lifts {site.number} tons"
    sent = hook.send(page_id)
    question = {"question": f"How many tons does the crane of berth {page_id} lift?"}

    def is_cited() -> bool:
        answer = httpx.post(f"{hook.server.url}/v1/ask", json=question, timeout=60).json()
        return any(words in citation["quote"] for citation in answer["citations"])

    wait_until(is_cited, 240)
    return time.time() - sent


def table_of(wiki: Wiki, name: str) -> list[dict[str, Any]]:
    schema = {"pages": PAGES, "chunks": CHUNKS}[name]
    rows: list[dict[str, Any]] = read_table(Store(wiki.home).source("eng") / f"{name}.parquet", schema).to_pylist()
    return rows


@pytest.mark.timeout(900 + 3 * EVENTS)
def test_after_the_next_sync_all_is_as_a_fresh_one_has_it_whatever_became_of_the_events(
    tmp_path: Path, site: BusyWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_OF_ENG", SECRET)
    chance, late = random.Random(7), list[str]()
    wiki = configured(Wiki(tmp_path / "pushed"), site)
    build(wiki)
    notes = NotedPages(Store(wiki.home).source("eng"))
    watching = Watching(wiki)
    with ExitStack() as stack:
        stack.callback(lambda: watching.kill())
        hook = Hook(stack.enter_context(serving(str(wiki.config_path), monkeypatch, 1)))
        seconds = [cited_after(site, hook, str(chance.randrange(1, 21))) for _ in range(MEASURED)]
        for number in range(EVENTS):
            with site.lock:
                told = site.change(chance, chance.choice(KINDS))
            fault = FAULTS[number % len(FAULTS)] if number < len(FAULTS) else chance.choice(FAULTS)
            hook.spoiled(chance, fault, told, late)
            if number % (EVENTS // 3) == 3:
                time.sleep(chance.random())
                watching.kill()  # wherever it is
                watching.start()
            if number % (EVENTS // 2) == 5:
                hook.server.kill()
                hook.server = stack.enter_context(serving(str(wiki.config_path), monkeypatch, 1))
        for page_id in late:
            hook.send(page_id)
        wait_until(lambda: notes.mark() is None, 240)
        assert hook.replies == {(202, b"")} | {reply for reply in hook.replies if reply[0] == 401}
        assert len(hook.replies) == 2
    build(wiki)
    fresh = configured(Wiki(tmp_path / "fresh"), site)
    build(fresh)
    for name in ("pages", "chunks"):
        assert table_of(wiki, name) == table_of(fresh, name)
    spread = quantiles(seconds, n=20)[-1]
    print(f"\nfrom event to citation: median {median(seconds):.1f} s, p95 {spread:.1f} s of {len(seconds)}")
