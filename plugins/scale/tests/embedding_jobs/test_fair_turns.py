"""A tenant that uploads ten thousand documents delays another's ten by no more than twice: in simulated time, by rule,
and with real worker processes."""

from __future__ import annotations

import heapq
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select
from support.forked import forked
from support.job_queues import MODEL, Installation, work_in_process
from support.waiting import wait_until

from citelock_scale.embedding_jobs.queue import (
    Batch,
    EmbeddingText,
    JobClaim,
    JobQueue,
    TenantTurn,
    backoff,
    charged,
    next_tenant,
)
from rag_serving.config.sections import JobLimits
from rag_serving.telemetry.usage import JOBS

TEXTS_A_DOCUMENT, TEXTS_A_JOB, TOKENS_A_TEXT = 6, 8, 200
SECONDS_A_JOB = 2.0
UNLIMITED = JobLimits(1000, 0)


def batches(tenant: str, documents: int) -> list[Batch]:
    texts = [f"{tenant}{number}" for number in range(documents * TEXTS_A_DOCUMENT)]
    items = [EmbeddingText(text, text, text) for text in texts]
    parts = [tuple(items[start : start + TEXTS_A_JOB]) for start in range(0, len(items), TEXTS_A_JOB)]
    return [Batch(tenant, MODEL, part, len(part) * TOKENS_A_TEXT) for part in parts]


def seconds_until_done(home: Installation, workers: int, busy: bool) -> float:
    """Return how long the small tenant waits for ten documents; if it is `busy`, beside a large one that began
    before."""
    large, small = batches("large", 10_000), batches("small", 10)
    running: list[tuple[float, str, JobClaim]] = []

    def start_jobs() -> None:
        while len(running) < workers and (claim := home.queue.claim("w", MODEL)):
            heapq.heappush(running, (home.clock.now + SECONDS_A_JOB * len(claim.keys) / TEXTS_A_JOB, claim.id, claim))

    def end_job() -> None:
        home.clock.now, _, claim = heapq.heappop(running)
        home.queue.finish(claim, [])
        if busy:
            home.queue.enqueue(large[: workers + 1])

    if busy:
        home.queue.enqueue(large[:20])
        for _ in range(7):
            start_jobs()
            end_job()
            del large[0]
        start_jobs()
        home.clock.now += 0.1
    began = home.clock.now
    home.queue.enqueue(small)
    while home.states("small")[0]:
        start_jobs()
        end_job()
    return home.clock.now - began


@pytest.mark.parametrize("workers", [1, 3])
def test_ten_documents_beside_ten_thousand_take_twice_as_long_at_most(tmp_path: Path, workers: int) -> None:
    settings = {"texts_per_job": TEXTS_A_JOB, "concurrency": 100}
    alone = seconds_until_done(Installation(tmp_path / "alone", None, settings), workers, busy=False)
    beside = seconds_until_done(Installation(tmp_path / "beside", None, settings), workers, busy=True)
    assert alone < beside <= 2 * alone


@given(
    st.lists(st.lists(st.integers(1, 5000), min_size=1, max_size=30), min_size=2, max_size=5),
    st.integers(0, 30),
    st.integers(1, 4),
)
def test_nobody_who_waits_is_given_less_than_another_by_more_than_one_job_of_each(
    jobs: list[list[int]], alone: int, workers: int
) -> None:
    """From when all tenants wait, whatever the first was given before."""
    queues = {str(number): list(own) for number, own in enumerate(jobs)}
    queues["0"] = [1000] * alone + queues["0"]
    largest = max(map(max, queues.values()))
    served, given_since, clock = dict.fromkeys(queues, 0.0), dict.fromkeys(queues, 0), 0.0
    for step in range(sum(map(len, queues.values()))):
        waiting = [name for name, own in queues.items() if own and (step >= alone or name == "0")]
        turns = [TenantTurn(name, served[name], 0, len(queues[name]), step % workers, UNLIMITED) for name in waiting]
        turn = next_tenant(turns, clock, 0)
        assert turn is not None
        tokens = queues[turn.tenant].pop(0)
        clock, served[turn.tenant], _ = charged(turn, clock, tokens, 0)
        if step >= alone:
            given_since[turn.tenant] += tokens
            if all(queues.values()):
                assert max(given_since.values()) - min(given_since.values()) <= 2 * largest
            else:
                break


def test_limits_keep_a_tenant_back_and_no_other() -> None:
    capped = TenantTurn("capped", 0, 0, 1, 2, JobLimits(2, 0))
    slowed = TenantTurn("slowed", 0, 50, 1, 0, JobLimits(9, 300))
    free = TenantTurn("free", 999, 0, 9, 5, UNLIMITED)
    assert next_tenant([capped, slowed, free], 10, 49) == free
    assert next_tenant([capped, slowed], 10, 49) is None
    assert next_tenant([capped, slowed], 10, 50) == slowed
    assert charged(slowed, 10, 300, 70) == (10, 310, 130)
    assert charged(TenantTurn("t", 20, 0, 1, 0, JobLimits(9, 600)), 10, 300, 70) == (20, 320, 100)


def test_pauses_double_up_to_five_minutes() -> None:
    assert [backoff(attempts, 2) for attempts in (1, 2, 3, 8, 9, 10_000)] == [2, 4, 8, 256, 300, 300]


def test_real_workers_take_turns(tmp_path: Path) -> None:
    home = Installation(tmp_path / "home", None, {"texts_per_job": TEXTS_A_JOB, "max_waiting": 60, "concurrency": 100})
    home.queue = JobQueue.of(home.config)  # with the machine's clock, as the workers have
    home.enqueue("large", [f"large {number:05}" for number in range(60 * TEXTS_A_JOB)])
    workers = [forked(work_in_process, home.content) for _ in range(2)]
    try:
        wait_until(lambda: home.states("large")[0] < 55)
        small = len(home.enqueue("small", [f"small {number:05}" for number in range(10 * TEXTS_A_DOCUMENT)]))
        wait_until(lambda: home.states("small")[0] == 0)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    with home.queue.database.reading() as connection:
        times = select(func.min(JOBS.c.created_at), func.max(JOBS.c.claimed_at)).where(JOBS.c.tenant == "small")
        came, last = connection.execute(times).one()
        between = JOBS.c.claimed_at > came, JOBS.c.claimed_at < last, JOBS.c.tenant == "large"
        large = connection.execute(select(func.count()).where(*between)).scalar_one()
    home.queue.database.close()
    assert small == 8
    assert small - len(workers) <= large <= small + len(workers)
