"""The queue, in SQLite and in Postgres: jobs that are made once, leases that end, fences, limits, dead letters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import select
from support.counting_embedder import Counting
from support.forked import forked
from support.job_queues import MODEL, Installation, Refusing, Slow, enqueue_in_process
from support.postgres import Postgres
from support.waiting import wait_until

from citelock_scale.embedding_jobs import worker as worker_module
from citelock_scale.embedding_jobs.queue import ENDED, LACKS_TEXTS, Failure
from rag_assets.embedding_usage import JobsError, PageUsage, read_usage
from rag_assets.state.content_cache import vector_key
from rag_serving.models.protocols import Progress
from rag_serving.telemetry.usage import JOBS, BuildSeries

Install = Callable[..., Installation]
TEXTS = [f"text {number:03}" for number in range(128)]


def test_the_same_texts_are_one_job_whoever_enqueues_them_and_in_whatever_batches(install: Install) -> None:
    home = install()
    assert len(home.enqueue("large", TEXTS)) == 2
    assert home.enqueue("large", TEXTS) == []
    assert home.enqueue("large", TEXTS[10:20]) == []
    assert len(home.enqueue("small", TEXTS)) == 2
    assert home.states("large") == (2, 0)


def test_two_processes_that_enqueue_at_once_make_each_job_once(install: Install) -> None:
    home = install(texts_per_job=2, max_waiting=1000)
    both = [forked(enqueue_in_process, home.content, "large", TEXTS[::order]) for order in (1, -1)]
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    with home.queue.database.reading() as connection:
        keys = [key for keys in connection.execute(select(JOBS.c.text_keys)).scalars() for key in keys]
    assert sorted(keys) == sorted({vector_key(MODEL, text) for text in TEXTS})


def test_a_job_that_is_done_can_be_done_again_when_its_vectors_are_gone(install: Install) -> None:
    home = install()
    (first,) = home.enqueue("large", TEXTS[:5])
    assert home.queue.finish(home.claim(), [])
    home.clock.now += 1
    assert home.enqueue("large", TEXTS[:5]) == [first]


def test_a_lease_that_ended_gives_the_job_to_another_and_the_late_worker_changes_nothing(install: Install) -> None:
    home = install(lease_s=60)
    home.enqueue("large", TEXTS[:5])
    late = home.claim("late")
    home.clock.now += 59
    assert home.queue.claim("other", MODEL) is None
    assert home.queue.renew(late)
    home.clock.now += 61
    other = home.claim("other")
    assert (other.id, other.attempts) == (late.id, 1)
    failure = Failure(late.keys[:1], "late")
    assert not home.queue.renew(late)
    assert not home.queue.finish(late, [PageUsage("p", 1, 1, 1.0)], [failure])
    assert not home.queue.give_back(late)
    assert not home.queue.split(late, [late.keys[:2], late.keys[2:]])
    assert home.states("large") == (1, 0)
    assert home.queue.finish(other, [])
    assert home.states("large") == (0, 0)
    with home.queue.database.reading() as connection:
        assert read_usage(connection, "large", MODEL) == {}


def test_what_a_late_worker_embedded_is_kept_and_counted_though_the_job_is_another_ones(install: Install) -> None:
    home = install(lease_s=0.4)
    home.enqueue("large", TEXTS[:5])
    home.clock.now = time.time()

    class Late(Counting):
        def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
            home.clock.now += 60
            home.claim("other")
            time.sleep(0.3)  # the next beat reports that the job is lost
            return super().embed_documents(texts, progress)

    late = home.worker(Late())
    assert late.step()
    assert (late.tally.lost, late.tally.jobs) == (1, 0)
    assert home.known("large", TEXTS[:5]) == 5
    assert home.states("large") == (1, 0)
    with home.queue.database.reading() as connection:
        usage = read_usage(connection, "large", MODEL)
    assert sum(page.texts for page in usage.values()) == 5
    assert all(page.tokens > 0 for page in usage.values())


def test_a_late_worker_does_not_hold_a_job_of_the_same_texts_that_was_enqueued_again(install: Install) -> None:
    home = install(lease_s=60)
    home.enqueue("large", TEXTS[:5])
    late = home.claim("late")
    home.clock.now += 61
    assert home.queue.finish(home.claim("other"), [])
    home.enqueue("large", TEXTS[:5])
    again = home.claim("third")
    assert again.id == late.id
    assert not home.queue.finish(late, [])
    assert home.queue.renew(again)


def test_a_text_whose_workers_end_is_put_aside_with_the_reason_and_others_are_not(install: Install) -> None:
    home = install(attempts=3, lease_s=10)
    home.enqueue("large", TEXTS[:1])
    for _ in range(3):
        home.claim()
        home.clock.now += 11
    assert home.queue.claim("w", MODEL) is None
    (failure,) = home.queue.state("large", MODEL).dead.values()
    assert failure == Failure((vector_key(MODEL, TEXTS[0]),), ENDED)


def test_a_text_that_fails_is_tried_after_longer_and_longer_pauses_and_then_put_aside(install: Install) -> None:
    home = install(attempts=4, backoff_s=2)
    home.enqueue("large", TEXTS[:3])
    claim, pauses = home.claim(), []
    for _ in range(3):
        assert home.queue.finish(claim, [], [Failure((claim.keys[0],), "HTTP 400:\nno such luck")])
        began = home.clock.now
        while (following := home.queue.claim("w", MODEL)) is None:
            home.clock.now += 1
        claim = following
        pauses.append(home.clock.now - began)
    assert pauses == [2, 4, 8]
    assert home.queue.finish(claim, [], [Failure(claim.keys, "HTTP 400: no such luck")])
    (failure,) = home.queue.state("large", MODEL).dead.values()
    assert failure.reason == "HTTP 400: no such luck"
    assert home.states("large") == (0, 1)
    assert home.enqueue("large", TEXTS[:1]) == []
    assert home.queue.retry("small") == []
    assert home.queue.retry("large") == [claim.id]
    assert home.claim().attempts == 0


def test_what_is_given_back_counts_as_untried_and_waits(install: Install) -> None:
    home = install()
    home.enqueue("large", TEXTS[:3])
    assert home.queue.give_back(home.claim(), "no server answers", 5)
    assert home.queue.claim("w", MODEL) is None
    assert home.queue.state("large", MODEL).last_reason == "no server answers"
    home.clock.now += 6
    assert home.claim().attempts == 0


def test_the_queue_takes_no_more_than_its_bound_and_the_rest_later(install: Install) -> None:
    home = install(texts_per_job=1, max_waiting=3)
    assert len(home.enqueue("large", TEXTS[:5])) == 3
    assert len(home.enqueue("small", TEXTS[:5])) == 3
    assert home.enqueue("large", TEXTS[:5]) == []
    home.claim()
    home.claim()
    assert len(home.enqueue("large", TEXTS[3:9])) == 1


def test_a_tenant_has_no_more_jobs_at_once_than_its_cap(install: Install) -> None:
    home = install(texts_per_job=1, concurrency=2)
    home.enqueue("large", TEXTS[:9])
    assert [bool(home.queue.claim("w", MODEL)) for _ in range(3)] == [True, True, False]


def test_tokens_a_minute_are_spread_evenly(install: Install) -> None:
    home = install(texts_per_job=1, tokens_per_minute=60)
    home.enqueue("small", ["x" * 40, "y" * 80, "z" * 40])
    begun = []
    for second in range(40):
        begun += [second] if home.queue.claim("w", MODEL) else []
        home.clock.now += 1
    assert begun == [0, 10, 30]


def test_jobs_of_another_model_or_of_a_tenant_that_is_configured_no_more_stay(install: Install) -> None:
    home = install()
    home.enqueue("large", TEXTS[:3])
    assert home.queue.claim("w", "another/model") is None
    home.queue._tenants = {}
    assert home.queue.claim("w", MODEL) is None


def test_what_was_done_long_ago_is_forgotten_and_a_server_tells_how_many_jobs_there_are(install: Install) -> None:
    home = install(keep_days=30)
    home.enqueue("large", TEXTS[:70])
    assert home.queue.finish(home.claim(), [])
    series = BuildSeries(home.config)
    told = series.exposition("large").decode()
    assert 'citelock_embedding_jobs{state="waiting",tenant="large"} 1.0' in told
    assert 'citelock_embedding_jobs{state="done",tenant="large"} 1.0' in told
    assert 'citelock_embedding_jobs{state="dead",tenant="large"} 0.0' in told
    assert "small" not in told
    series.close()
    home.clock.now += 31 * 86_400
    home.enqueue("small", TEXTS[:1])
    with home.queue.database.reading() as connection:
        assert Counter(connection.execute(select(JOBS.c.state)).scalars()) == {"waiting": 2}


def test_a_batch_with_poison_costs_the_other_texts_nothing(install: Install) -> None:
    home = install(attempts=2, backoff_s=1)
    texts = [*TEXTS[:40], "poison 1", *TEXTS[40:60], "poison 2"]
    home.enqueue("large", texts)
    embedder = Refusing()
    worker = home.worker(embedder)
    assert worker.step()
    assert home.known("large", texts) == 60
    assert home.states("large") == (2, 0)
    home.clock.now += 2
    assert worker.step()
    assert worker.step()
    dead = home.queue.state("large", MODEL).dead
    assert {key for failure in dead.values() for key in failure.keys} == {
        vector_key(MODEL, text) for text in ("poison 1", "poison 2")
    }
    assert {failure.reason for failure in dead.values()} == {"the server refuses to embed (HTTP 400: invalid input)"}
    with home.queue.database.reading() as connection:
        usage = read_usage(connection, "large", MODEL)
    assert len(usage) == 60
    assert all(page.tokens > 0 for page in usage.values())


def test_a_model_that_is_away_costs_no_try_and_no_text(install: Install) -> None:
    home = install(attempts=1)
    home.enqueue("large", TEXTS[:9])
    embedder = Refusing()
    embedder.is_away = True
    worker = home.worker(embedder)
    with pytest.raises(Exception, match="no embedding server answers"):
        worker.step()
    assert home.states("large") == (1, 0)
    embedder.is_away = False
    home.clock.now += 10
    assert worker.step()
    assert home.known("large", TEXTS[:9]) == 9


def test_a_job_whose_texts_were_deleted_or_altered_is_put_aside_with_the_reason(install: Install) -> None:
    home = install(texts_per_job=1, attempts=2, backoff_s=1)
    home.enqueue("large", TEXTS[:2])
    first, second = sorted((home.store.cache("large") / "embedding_jobs").iterdir())
    first.unlink()
    second.write_text(second.read_text().replace("text 00", "text 99"))
    worker = home.worker()
    assert worker.step()
    assert worker.step()
    assert not worker.step()
    assert home.states("large") == (2, 0)
    home.clock.now += 2
    assert worker.step()
    assert worker.step()
    assert {failure.reason for failure in home.queue.state("large", MODEL).dead.values()} == {
        f"{LACKS_TEXTS}: workers and builds must share the home, and its secret",
        f"{LACKS_TEXTS}: one was altered",
    }
    assert home.known("large", TEXTS[:2]) == 0


def test_a_batch_that_ends_its_workers_is_halved_until_the_text_is_found(install: Install) -> None:
    home = install(attempts=2, lease_s=10)
    home.enqueue("large", TEXTS[:8])
    killer = vector_key(MODEL, TEXTS[5])
    worker = home.worker()
    for _ in range(60):
        claim = home.queue.claim(worker.name, MODEL)
        if claim is None:
            break
        if killer in claim.keys and (len(claim.keys) == 1 or claim.attempts < 2):
            home.clock.now += 11  # the process that had it was killed
            continue
        assert home.queue.give_back(claim)
        assert worker.step()
    assert home.known("large", TEXTS[:8]) == 7
    (failure,) = home.queue.state("large", MODEL).dead.values()
    assert failure.keys == (killer,)


def test_a_database_that_is_away_is_told_in_one_line_and_comes_back(tmp_path: Path, postgres: Postgres) -> None:
    home = Installation(tmp_path / "home", postgres.url, {})
    home.enqueue("large", TEXTS[:3])
    postgres.stop()
    with pytest.raises(JobsError) as raised:
        home.queue.claim("w", MODEL)
    assert "\n" not in str(raised.value)
    postgres.start()
    assert home.queue.state("large", MODEL).open
    home.queue.database.close()


def test_jobs_resume_when_the_database_was_killed_amid_them(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "AWAY_S", 0.1)
    home = Installation(tmp_path / "home", postgres.url, {"texts_per_job": 8, "lease_s": 1})
    home.queue.clock = time.time
    home.enqueue("small", TEXTS)
    stop = Event()
    worker = home.worker(Slow())
    working = Thread(target=worker.run, args=[stop])
    working.start()
    wait_until(lambda: worker.tally.jobs > 1)
    postgres.stop()
    time.sleep(0.3)
    assert working.is_alive()
    postgres.start()
    wait_until(lambda: home.states("small") == (0, 0))
    stop.set()
    working.join()
    assert home.known("small", TEXTS) == len(TEXTS)
    home.queue.database.close()
