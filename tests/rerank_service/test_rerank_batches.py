"""Batches of the sidecar: what is scored together, and that no failure is tried for ever."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.rerank_service.api import MicroBatcher, ScoringError, length_sorted, score_all, score_halving


@given(st.lists(st.integers(1, 600), max_size=120), st.integers(1, 40), st.integers(1, 4000))
def test_batches_hold_every_pair_once_within_both_limits(lengths: list[int], pairs: int, tokens: int) -> None:
    batches = length_sorted(lengths, pairs, tokens)
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = max(lengths[position] for position in batch) * len(batch)
        assert len(batch) <= pairs
        assert padded <= tokens or len(batch) == 1
    assert [lengths[at] for batch in batches for at in batch] == sorted(lengths, reverse=True)


def test_short_pairs_are_not_padded_to_the_length_of_long_ones() -> None:
    lengths = [500, 20] * 32
    padded = sum(max(lengths[at] for at in batch) * len(batch) for batch in length_sorted(lengths, 32, 16_384))
    assert padded == sum(lengths)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 8))
def test_scores_come_back_in_the_order_of_the_pairs(lengths: list[int], size: int) -> None:
    assert score_all(lengths, lengths, lambda batch: batch, size, 100) == lengths


def test_a_batch_that_does_not_fit_is_scored_in_smaller_ones() -> None:
    def score(pairs: Sequence[int]) -> Sequence[float]:
        if len(pairs) > 3:
            raise RuntimeError("out of memory")
        return pairs

    assert score_halving(range(20), score) == list(range(20))


def test_a_failure_that_persists_ends_after_a_few_tries() -> None:
    tries = []

    def score(pairs: Sequence[int]) -> Sequence[float]:
        tries.append(len(pairs))
        raise RuntimeError("CUDA error: device-side assert triggered")

    with pytest.raises(ScoringError, match="device-side assert"):
        score_halving(range(32), score)
    assert tries == [32, 16, 8, 4, 2, 1]


@pytest.mark.parametrize("scores", [[float("nan"), 1.0], [float("inf"), 1.0], [1.0]])
def test_scores_that_are_no_numbers_are_a_failure(scores: list[float]) -> None:
    with pytest.raises(ScoringError):
        score_halving([1, 2], lambda _: scores)


class Recorder:
    """A model that waits for permission and remembers what it was asked in one run."""

    def __init__(self) -> None:
        self.may_run = threading.Event()
        self.runs: list[list[int]] = []

    def score(self, pairs: Sequence[int]) -> list[float]:
        self.may_run.wait(10)
        self.runs.append(list(pairs))
        if -1 in pairs:
            raise RuntimeError("poison")
        return [pair / 2 for pair in pairs]


@pytest.fixture
def model() -> Recorder:
    return Recorder()


def test_requests_that_come_in_together_are_scored_in_one_run(model: Recorder) -> None:
    batcher = MicroBatcher(model.score, max_pairs=100, wait_s=0.2)
    futures = [batcher.submit([at, at + 1]) for at in (10, 20, 30)]
    model.may_run.set()
    assert [future.result(10) for future in futures] == [[5, 5.5], [10, 10.5], [15, 15.5]]
    assert model.runs == [[10, 11, 20, 21, 30, 31]]
    batcher.close()


def test_a_run_takes_no_more_pairs_than_allowed_and_loses_none(model: Recorder) -> None:
    batcher = MicroBatcher(model.score, max_pairs=4, wait_s=0.05)
    futures = [batcher.submit([at] * 3) for at in range(5)]
    model.may_run.set()
    assert [future.result(10) for future in futures] == [[at / 2] * 3 for at in range(5)]
    assert all(len(run) == 3 for run in model.runs)
    batcher.close()


def test_nobody_fails_for_the_request_of_somebody_else(model: Recorder) -> None:
    batcher = MicroBatcher(model.score, max_pairs=100, wait_s=0.2)
    good, bad, also_good = batcher.submit([1]), batcher.submit([-1]), batcher.submit([3])
    model.may_run.set()
    assert (good.result(10), also_good.result(10)) == ([0.5], [1.5])
    with pytest.raises(ScoringError, match="poison"):
        bad.result(10)
    assert len(model.runs) == 4
    batcher.close()


def test_failures_in_a_row_are_told_and_a_success_forgets_them(model: Recorder) -> None:
    model.may_run.set()
    batcher = MicroBatcher(model.score, max_pairs=100, wait_s=0)
    for _ in range(3):
        assert not batcher.is_failing(60)
        with pytest.raises(ScoringError):
            batcher.submit([-1]).result(10)
    assert batcher.is_failing(60)
    batcher.submit([2]).result(10)
    assert not batcher.is_failing(60)
    batcher.close()


def test_a_run_that_hangs_is_told(model: Recorder) -> None:
    batcher = MicroBatcher(model.score, max_pairs=100, wait_s=0)
    future = batcher.submit([2])
    while not batcher.is_failing(longest_run_s=0.01):
        pass
    model.may_run.set()
    future.result(10)
    batcher.close()


def test_a_request_that_nobody_waits_for_any_more_is_not_scored(model: Recorder) -> None:
    batcher = MicroBatcher(model.score, max_pairs=1, wait_s=0)
    first, second = batcher.submit([2]), batcher.submit([4])
    assert second.cancel()
    model.may_run.set()
    first.result(10)
    batcher.close()
    assert model.runs == [[2]]


def test_closing_finishes_what_was_submitted(model: Recorder) -> None:
    batcher = MicroBatcher(model.score, max_pairs=2, wait_s=0.1)
    futures = [batcher.submit([at]) for at in range(6)]
    model.may_run.set()
    batcher.close()
    assert all(future.done() for future in futures)
