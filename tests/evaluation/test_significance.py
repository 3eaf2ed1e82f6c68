"""Intervals and paired tests against enumeration and against what they promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.evaluation.metrics import bootstrap_interval, paired_p_value

values = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8))
def test_a_p_value_is_the_share_of_sign_patterns_at_least_as_extreme(pairs: list[tuple[int, int]]) -> None:
    before, after = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    differences = [b - a for a, b in zip(before, after, strict=True)]
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(pairs))
    ]
    expected = np.mean([value >= abs(sum(differences)) for value in sums])
    assert paired_p_value(before, after) == pytest.approx(expected)


def test_equal_runs_do_not_differ() -> None:
    assert paired_p_value([0.1, 0.5], [0.1, 0.5]) == 1.0


def test_a_clear_loss_is_significant_and_noise_is_not() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 60)
    base = np.full(60, 0.7)
    assert paired_p_value(base.tolist(), (base - 0.2 + noise).tolist()) < 0.001
    assert paired_p_value(base.tolist(), (base + noise - noise.mean()).tolist()) > 0.9


def test_runs_of_different_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_p_value([1.0], [1.0, 0.0])


@given(values)
def test_the_mean_lies_in_its_interval(sample: list[float]) -> None:
    interval = bootstrap_interval(sample, resamples=200)
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9
    assert interval == bootstrap_interval(sample, resamples=200)


def test_an_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        interval = bootstrap_interval(generator.random(50).tolist(), resamples=400)
        covered += interval.low <= 0.5 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval([])
