"""Promise 4: whatever happens to a build, the published generation opens, is complete and never changes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from publish_job import STEPS, build_until
from support.examples import examples
from support.synthetic import EVERYONE, TENANT, config_for, folder_bytes

from rag_assets.publishing.publish import prune
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import list_generations, published_ids, rollback
from rag_serving.indexes.generation import Generation

KILLS = int(os.environ.get("CITELOCK_KILLS", "1"))


def assert_serves(store: Store, config: Config) -> Generation:
    """The published generation opens, is whole in both indexes and answers."""
    generation = Generation.open(store, TENANT, store.current(TENANT) or "", config)
    assert generation.degraded == ()
    assert generation.lexical_ids() == generation.chunk_ids()
    row = len(generation) // 2
    assert generation.approximate(generation.vectors([row])[0], 1)[0].score > 0.999
    word = generation.chunk(row).text.split()[0]
    assert generation.lexical(word, 1, EVERYONE)
    return generation


class Publishing(RuleBasedStateMachine):
    """Builds, crashes between steps, rollbacks and pruning in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.store, self.config = Store(self.home), config_for(self.home, keep_generations=2, max_shard_chunks=16)
        self.contents: dict[str, dict[str, str]] = {}

    @rule(count=st.integers(2, 6).map(lambda pages: 4 * pages), last=st.sampled_from(STEPS))
    def build(self, count: int, last: str) -> None:
        build_until(self.store, self.config, count, last)

    @precondition(lambda self: self.store.current(TENANT))
    @rule()
    def roll_back(self) -> None:
        with suppress(StoreError):  # nothing older that was published
            rollback(self.store, TENANT, self.config)

    @precondition(lambda self: self.store.current(TENANT))
    @rule()
    def prune(self) -> None:
        prune(self.store, TENANT, self.config)
        kept = [info for info in list_generations(self.store, TENANT) if info.published]
        assert len(kept) <= 2

    @invariant()
    def what_is_published_serves_and_never_changes(self) -> None:
        if not self.store.current(TENANT):
            return
        assert_serves(self.store, self.config).close()
        assert all(info.problem is None for info in list_generations(self.store, TENANT))
        ids = [info.id for info in list_generations(self.store, TENANT)]
        contents = {id_: folder_bytes(self.store.generation(TENANT, id_)) for id_ in ids}
        for id_ in contents.keys() & self.contents.keys():
            assert contents[id_] == self.contents[id_]
        self.contents = contents  # one that was pruned may be built again, at another time
        assert self.store.current(TENANT) in published_ids(self.store, TENANT)

    def teardown(self) -> None:
        self.folder.cleanup()


Publishing.TestCase.settings = settings(max_examples=examples(0.16), stateful_step_count=8)
TestPublishing = Publishing.TestCase


def killed_builder(home: Path, count: int, after_s: float) -> None:
    """A process that publishes once, goes on building, and is killed in the middle of that."""
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, str(here / "publish_job.py"), str(home), str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(here.parent), *sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{count}\n"
        time.sleep(after_s)
        process.kill()


def test_builds_killed_at_random_moments_leave_the_published_generation_serving(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path, keep_generations=2, max_shard_chunks=128)
    moments = random.Random(20240501)
    for attempt in range(KILLS):
        count = 40 + 40 * attempt
        killed_builder(tmp_path, count, moments.uniform(0, 0.8))
        assert len(assert_serves(store, config)) >= count
        assert all(info.problem is None for info in list_generations(store, TENANT))
    build_until(store, config, 100, "prune")
    assert len(assert_serves(store, config)) == 100
    assert not [path.name for path in store.generations(TENANT).iterdir() if path.name.startswith(".")]
