"""A running server picks up new generations, loses old ones, and loses no request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.running import running
from support.wiki import PASSAGES, Passage, configuration, publish

from rag_assets.publishing.publish import prune
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store

ROUNDS = 4


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server of the home in `tmp_path`, in a thread."""
    publish(tmp_path)
    with running(create_app(configuration(tmp_path))) as address:
        yield address


def republished(home: Path, number: int) -> str:
    """Publish one more page and prune every older generation with its collections."""
    page = Passage("20", f"News {number}", f"Release {number} of the dashboard shows the lag of every broker.")
    config = configuration(home, indexing={"keep_generations": 1})
    published = publish(home, (*PASSAGES, page), config)
    assert prune(Store(home), "acme", config).generations
    return published


def test_no_request_is_lost_while_generations_come_and_go(address: str, tmp_path: Path) -> None:
    failures: list[str] = []
    served: list[str] = []
    done = threading.Event()

    def ask(path: str, body: dict[str, object]) -> None:
        with httpx.Client(base_url=address, timeout=30) as client:
            while not done.is_set():
                response = client.post(path, json=body)
                content = response.json()
                if response.status_code != 200 or content.get("status", "answered") != "answered":
                    failures.append(response.text)
                served.append(content.get("generation", ""))

    asked = {"question": "May I restart a broker while partitions are under-replicated?"}
    threads = [threading.Thread(target=ask, args=("/v1/ask", asked)) for _ in range(2)]
    threads += [threading.Thread(target=ask, args=("/v1/search", {"query": "consumer lag"})) for _ in range(2)]
    for thread in threads:
        thread.start()
    generations = []
    for number in range(ROUNDS):
        generations.append(republished(tmp_path, number))
        seen = time.monotonic()
        while served[-1:] != [generations[-1]] and time.monotonic() - seen < 20:
            time.sleep(0.02)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert served[-1] == generations[-1]
    assert set(generations) <= set(served)
    assert len(served) > ROUNDS
