"""The circuit breaker: when a failing server is asked, and when it is left alone."""

from __future__ import annotations

import threading

import pytest

from rag_serving.models.breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(failures=3, reset_s=10.0, clock=clock)


def opened(breaker: Breaker) -> Breaker:
    for _ in range(3):
        assert breaker.allow()
        breaker.fail()
    return breaker


def test_a_new_breaker_lets_everybody_ask(breaker: Breaker) -> None:
    assert breaker.state == "closed"
    assert all(breaker.allow() for _ in range(10))


def test_it_opens_at_the_last_failure_in_a_row_and_not_before(breaker: Breaker) -> None:
    states = []
    for _ in range(3):
        breaker.fail()
        states.append(breaker.state)
    assert states == ["closed", "closed", "open"]
    assert not breaker.allow()


def test_a_success_forgets_the_failures_before_it(breaker: Breaker) -> None:
    for _ in range(5):
        breaker.fail()
        breaker.fail()
        breaker.succeed()
    assert breaker.state == "closed"


def test_after_the_reset_time_one_probe_is_let_through(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 9.9
    assert not breaker.allow()
    clock.now += 0.1
    assert breaker.state == "half_open"
    assert [breaker.allow() for _ in range(4)] == [True, False, False, False]
    assert breaker.state == "half_open"


def test_a_probe_that_succeeds_closes_it(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 10
    assert breaker.allow()
    breaker.succeed()
    assert breaker.state == "closed"
    assert breaker.allow()


def test_a_probe_that_fails_opens_it_for_the_whole_reset_time_again(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 10
    assert breaker.allow()
    clock.now += 4
    breaker.fail()
    assert breaker.state == "open"
    clock.now += 9.9
    assert not breaker.allow()
    clock.now += 0.1
    assert breaker.allow()


def test_after_recovery_it_takes_as_many_failures_as_before_to_open(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 10
    assert breaker.allow()
    breaker.succeed()
    breaker.fail()
    breaker.fail()
    assert breaker.state == "closed"


def test_a_late_failure_of_an_older_question_does_not_prolong_the_wait(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 9
    breaker.fail()
    clock.now += 1
    assert breaker.allow()


def test_a_probe_that_never_reports_gives_way_to_another(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 10
    assert breaker.allow()
    clock.now += 9.9
    assert not breaker.allow()
    clock.now += 0.1
    assert breaker.allow()


def test_of_many_threads_exactly_one_probes(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 10
    barrier, allowed = threading.Barrier(8), []

    def ask() -> None:
        barrier.wait()
        allowed.append(breaker.allow())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(allowed) == [False] * 7 + [True]
