"""The estimate of the time that is left."""

from __future__ import annotations

import itertools

import pytest

from rag_assets.progress import LEAST_REPORTS, WINDOW_S, Throughput, WorkDone, duration, estimate


def steady(count: int, seconds: float = 1.0, total: int = 100) -> list[WorkDone]:
    return [WorkDone(10 + seconds * number, number, number / total) for number in range(1, count + 1)]


def test_the_rest_takes_what_its_share_took_of_late() -> None:
    now = estimate(steady(20))
    assert now is not None
    assert now.rate == pytest.approx(1)
    assert now.seconds_left == pytest.approx(80)


@pytest.mark.parametrize("reports", [[], steady(1), steady(LEAST_REPORTS - 1, seconds=60), steady(50, seconds=0.01)])
def test_there_is_no_guess_before_enough_is_known(reports: list[WorkDone]) -> None:
    assert estimate(reports) is None


def test_what_loading_a_model_took_is_no_measure() -> None:
    late = [WorkDone(report.at + 600, report.done, report.share) for report in steady(10)]
    assert estimate(late) == pytest.approx(estimate(steady(10)))


def test_work_that_grew_slower_is_estimated_at_its_present_pace() -> None:
    quick = [WorkDone(0.1 * number, number, number / 1000) for number in range(500)]
    slow = [WorkDone(50 + 2.0 * number, 500 + number, (500 + number) / 1000) for number in range(1, 30)]
    now = estimate(quick + slow)
    assert now is not None
    assert now.rate == pytest.approx(0.5, rel=0.05)


def test_units_that_take_longer_count_for_more() -> None:
    """Texts of 1,000 characters first, of 100 afterwards: by number alone the guess would be three times too high."""
    lengths = [1000] * 20 + [100] * 180
    work = [0, *itertools.accumulate(lengths)]
    reports = [WorkDone(work[done] / 250, done, work[done] / work[-1]) for done in range(1, 11)]
    now = estimate(reports)
    assert now is not None
    assert now.seconds_left == pytest.approx((work[-1] - work[10]) / 250)


def test_an_end_has_nothing_left_and_a_standstill_no_guess() -> None:
    assert estimate(steady(100)).seconds_left == 0  # type: ignore[union-attr]
    assert estimate([WorkDone(at, 5, 0.5) for at in range(10)]) is None


def test_a_million_reports_in_a_second_are_kept_as_few() -> None:
    ticks = itertools.count()
    throughput = Throughput(clock=lambda: next(ticks) * 1e-4)
    for done in range(100_000):
        throughput.report(done, 1_000_000)
    assert len(throughput._reports) < 200
    assert throughput.estimate is not None
    assert throughput.estimate.rate == pytest.approx(10_000, rel=0.05)
    assert throughput.line == "10000.0/s, 90 s left"


def test_old_reports_are_forgotten() -> None:
    ticks = itertools.count()
    throughput = Throughput(clock=lambda: float(next(ticks)))
    for done in range(1000):
        throughput.report(done, 2000)
    assert len(throughput._reports) <= WINDOW_S + 2


def test_durations_are_in_units_that_people_use() -> None:
    assert [duration(seconds) for seconds in (0.4, 119, 300, 9000)] == ["0 s", "119 s", "5 min", "2.5 h"]


def test_nothing_to_do_is_done() -> None:
    throughput = Throughput()
    throughput.report(0, 0)
    assert throughput.line == ""
