"""The vector cache: nothing computed twice, nothing lost but what was in flight, never a crash over its own file."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.counting_embedder import Counting

from rag_assets.state.content_cache import COMMIT_TEXTS, FILE, SEAL_PURPOSE, VectorCache, vector_key
from rag_serving.artifacts.secret import Seal
from rag_serving.models.protocols import ModelError, Progress


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(tmp_path / "cache", Counting.name)


TEXTS = [f"text {n}" for n in range(200)]


def test_a_second_run_computes_nothing(cache: VectorCache) -> None:
    first, second = Counting(), Counting()
    made = cache.embed(first, TEXTS)
    found = cache.embed(second, TEXTS[::-1])
    assert (made.computed, found.computed, second.asked) == (200, 0, [])
    np.testing.assert_array_equal(made.vectors, found.vectors[::-1])
    np.testing.assert_array_equal(made.vectors, Counting().embed_documents(TEXTS))
    assert made.keys == [vector_key(Counting.name, text) for text in TEXTS]


def test_only_new_texts_are_computed_and_equal_texts_once(cache: VectorCache) -> None:
    cache.embed(Counting(), TEXTS[:50])
    embedder = Counting()
    result = cache.embed(embedder, [*TEXTS[:51], TEXTS[50], TEXTS[50]])
    assert embedder.asked == [TEXTS[50]]
    assert result.vectors.shape == (53, 16)
    np.testing.assert_array_equal(result.vectors[50], result.vectors[52])


def test_no_texts_give_no_vectors(cache: VectorCache) -> None:
    result = cache.embed(Counting(), [])
    assert (result.vectors.shape, result.keys, result.computed) == ((0, 16), [], 0)


def test_progress_counts_what_has_to_be_computed(cache: VectorCache) -> None:
    cache.embed(Counting(), TEXTS[:100])
    seen: list[tuple[int, int]] = []
    cache.embed(Counting(), TEXTS, lambda done, total, _: seen.append((done, total)))
    assert seen == [(64, 100), (100, 100)]


def test_models_share_the_file_and_nothing_else(cache: VectorCache) -> None:
    cache.embed(Counting(), TEXTS[:5])
    other = Counting(dimension=8)
    other.name = "test/other@1"
    assert VectorCache(cache.path.parent, other.name).embed(other, TEXTS[:5]).computed == 5
    assert cache.embed(Counting(), TEXTS[:5]).computed == 0


def test_another_models_vectors_are_refused(cache: VectorCache) -> None:
    other = Counting()
    other.name = "test/other@1"
    with pytest.raises(ModelError, match="'test/counting@1' are asked of 'test/other@1'"):
        cache.embed(other, ["a"])


def test_a_model_that_changed_under_its_name_is_refused(cache: VectorCache) -> None:
    cache.embed(Counting(), TEXTS[:5])
    with pytest.raises(ModelError, match="now gives 8 dimensions, 16 before"):
        cache.embed(Counting(dimension=8), TEXTS[5:6])


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"not a database at all" * 100,
        lambda content: content[: len(content) // 2],
        lambda content: content[:5000],
        lambda content: content[:100] + b"\xff" * (len(content) - 100),
        lambda content: content[:4096] + b"\x00" * (len(content) - 4096),
    ],
    ids=["empty", "text", "half", "torn", "overwritten", "zeroed"],
)
def test_a_damaged_file_is_put_aside_and_rebuilt(
    cache: VectorCache, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    expected = cache.embed(Counting(), TEXTS)
    content = cache.path.read_bytes()
    damaged = damage(content)  # type: ignore[operator]
    cache.path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        again = cache.embed(Counting(), TEXTS)
    np.testing.assert_array_equal(again.vectors, expected.vectors)
    assert cache.embed(Counting(), TEXTS).computed == 0
    if damaged:
        assert "moved to vectors.sqlite.damaged-1 and rebuilt" in caplog.text
        assert cache.path.with_name(f"{FILE}.damaged-1").read_bytes()[:100] == damaged[:100]


def test_a_file_of_another_version_is_put_aside(cache: VectorCache, caplog: pytest.LogCaptureFixture) -> None:
    cache.embed(Counting(), TEXTS[:5])
    database = sqlite3.connect(cache.path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    assert cache.embed(Counting(), TEXTS[:5]).computed == 5
    assert "version 99" in caplog.text


@pytest.mark.parametrize("blob", [b"", b"\x00" * 64, b"\xff" * 64, b"\x01" * 63])
def test_a_spoilt_vector_is_computed_again(cache: VectorCache, blob: bytes) -> None:
    expected = cache.embed(Counting(), TEXTS[:5])
    database = sqlite3.connect(cache.path)
    database.execute("UPDATE vectors SET vector = ? WHERE key = ?", [blob, bytes.fromhex(expected.keys[2])])
    database.commit()
    database.close()
    embedder = Counting()
    again = cache.embed(embedder, TEXTS[:5])
    assert embedder.asked == [TEXTS[2]]
    np.testing.assert_array_equal(again.vectors, expected.vectors)


def test_a_folder_that_cannot_be_written_is_told_with_its_mend(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(ModelError, match=r"vectors\.sqlite cannot be used .*mend its rights"):
        VectorCache(tmp_path, Counting.name).embed(Counting(), ["a"])


def _embed_in_a_process(folder: Path, first: int) -> None:
    VectorCache(folder, Counting.name).embed(Counting(), TEXTS[first : first + 150])


def test_processes_share_the_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_embed_in_a_process, args=(tmp_path, first)) for first in (0, 20, 50)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert VectorCache(tmp_path, Counting.name).embed(Counting(), TEXTS).computed == 0


SLOW_RUN = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.counting_embedder import Counting
from rag_assets.state.content_cache import VectorCache

class Slow(Counting):
    def embed_documents(self, texts, progress=None):
        for text in texts:
            time.sleep(0.012)  # 64 take longer than half a second: they are kept before more are embedded
            print("embedded", flush=True)
        return super().embed_documents(texts)

VectorCache(Path(sys.argv[1]), Counting.name).embed(Slow(), [f"text {n}" for n in range(2000)])
"""


def test_a_killed_run_loses_at_most_what_was_in_flight(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOW_RUN, str(tmp_path), str(Path(__file__).parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        embedded = 0
        for _ in process.stdout:
            embedded += 1
            if embedded == 100:
                os.kill(process.pid, signal.SIGKILL)
                break
        embedded += len(process.stdout.readlines())
    texts = [f"text {n}" for n in range(2000)]
    assert 2000 - VectorCache(tmp_path, Counting.name).embed(Counting(), texts).computed >= embedded - COMMIT_TEXTS
    assert embedded < 2000


def test_a_fast_model_is_given_more_texts_at_once(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Fast(Counting):
        def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
            sizes.append(len(texts))
            return super().embed_documents(texts, progress)

    done: list[int] = []
    VectorCache(tmp_path, Counting.name).embed(
        Fast(), [f"text {n}" for n in range(9000)], lambda at, *_: done.append(at)
    )
    assert sizes[0] == COMMIT_TEXTS
    assert sizes[-2] >= 8 * COMMIT_TEXTS
    assert done == [*accumulate(sizes)]
    assert done[-1] == 9000


def test_six_thousand_vectors_are_found_quickly(tmp_path: Path) -> None:
    texts = [f"a passage of some length, number {n}, about nothing in particular" for n in range(6000)]
    cache = VectorCache(tmp_path, Counting.name)
    cache.embed(Counting(dimension=384), texts)
    started = time.perf_counter()
    assert cache.embed(Counting(dimension=384), texts).computed == 0
    assert time.perf_counter() - started < 10  # about 0.1 s on an idle machine


def test_progress_tells_the_share_of_the_characters(cache: VectorCache) -> None:
    seen: list[tuple[int, int, float]] = []
    texts = ["x" * 900 + str(number) for number in range(64)] + [f"{number:02}" for number in range(64)]
    cache.embed(Counting(), texts, lambda *told: seen.append(told))
    assert [told[:2] for told in seen] == [(64, 128), (128, 128)]
    assert seen[0][2] > 0.99
    assert seen[1][2] == 1.0


@pytest.mark.parametrize("edit", ["another vector", "of another key", "no seal", "of another model", "another secret"])
def test_who_cannot_seal_cannot_put_a_vector_into_the_cache(tmp_path: Path, edit: str) -> None:
    def sealed(home: str = "home", model: str = Counting.name) -> VectorCache:
        return VectorCache(tmp_path / "cache", model, Seal(tmp_path / home, SEAL_PURPOSE))

    made = sealed().embed(Counting(), TEXTS[:3])
    assert sealed().embed(Counting(), TEXTS[:3]).computed == 0
    with closing(sqlite3.connect(tmp_path / "cache" / FILE)) as database, database:
        rows = dict(database.execute("SELECT key, vector FROM vectors").fetchall())
        first, second, _ = rows
        changed = {
            "another vector": np.roll(np.frombuffer(rows[first][:-16], "<f4"), 1).tobytes() + rows[first][-16:],
            "of another key": rows[second],
            "no seal": rows[first][:-16],
        }.get(edit, rows[first])
        database.execute("UPDATE vectors SET vector = ? WHERE key = ?", [changed, first])
        database.execute("INSERT INTO models SELECT 'another', dimension FROM models")
    if edit == "of another model":
        assert sealed(model="another").remembered([first.hex()]) is None
        return
    found = sealed("elsewhere" if edit == "another secret" else "home").embed(Counting(), TEXTS[:3])
    assert found.computed == (3 if edit == "another secret" else 1)
    np.testing.assert_array_equal(found.vectors, made.vectors)
