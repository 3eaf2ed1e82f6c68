"""Syncs of a live space that break off go on where they stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, Request
from sources.syncs import ALL, Syncs, column, ids, settings_of, third_batch
from support.constants import section_of

from rag_assets.sources import SourceError, open_source
from rag_serving.config import sources as source_kinds


def test_a_sync_that_breaks_off_does_not_fetch_its_batches_again(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults.append(Fault(lambda *_: Answer.of({}, 401), None, third_batch))
    with pytest.raises(SourceError, match="401"):
        sync()
    wiki.faults.clear()
    first = sync()
    assert wiki.bodies_asked() == ids(9, 10, 11, 12)
    assert set(column(first, "title")) == ALL
    sync()
    assert [*sync.folder.rglob("*.parquet")] == []


def test_a_page_that_changed_after_the_break_is_fetched_again(wiki: StandIn, sync: Syncs) -> None:
    wiki.faults.append(
        Fault(lambda *_: Answer.of({}, 401), None, lambda request: "9," in request.params.get("cql", ""))
    )
    with pytest.raises(SourceError):
        sync()
    wiki.faults.clear()
    wiki.site.edit("2", body="<p>Newer.</p>")
    wiki.site.delete("1")
    result = sync()
    assert column(result, "body")["2"] == "<p>Newer.</p>"
    assert wiki.bodies_asked() == ids(2, 9, 10, 11, 12)
    assert "1" not in column(result, "title")


def test_a_damaged_batch_on_disk_is_fetched_again(wiki: StandIn, sync: Syncs) -> None:
    first = sync()
    sync.last = None
    sorted(sync.folder.rglob("*.parquet"))[0].write_bytes(b"PAR1")
    second = sync()
    assert wiki.bodies_asked() == ids(1, 2, 3, 4)
    assert second.pages.equals(first.pages)


CHILD = """
import json, sys
from pathlib import Path
from rag_assets.sources import open_source
from rag_serving.config.sources import Confluence
given = json.loads(sys.argv[1])
Confluence.batch_size = given.pop("batch_size")
settings = Confluence(**given)
open_source("eng", settings, Path(sys.argv[2])).sync(None, {})
"""


def test_a_sync_that_is_killed_goes_on_where_it_stopped(wiki: StandIn, sync: Syncs) -> None:
    child: list[subprocess.Popen[bytes]] = []

    def kill(_: Request, answer: Answer) -> Answer:
        os.kill(child[0].pid, signal.SIGKILL)
        return answer

    wiki.faults.append(Fault(kill, 1, third_batch))
    command = [sys.executable, "-c", CHILD, json.dumps(settings_of(wiki)), str(sync.folder)]
    child.append(subprocess.Popen(command))
    assert child[0].wait(60) == -signal.SIGKILL
    result = sync()
    assert wiki.bodies_asked() == ids(9, 10, 11, 12)
    assert (result.seen, set(column(result, "title"))) == (12, ALL)


def test_progress_counts_the_bodies(wiki: StandIn, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    source = open_source("eng", section_of(source_kinds.Confluence, **settings_of(wiki)), tmp_path)
    assert source.fingerprint() is None
    source.sync(None, {}, lambda done, total: told.append((done, total)))
    assert told == [(4, 12), (8, 12), (12, 12)]
