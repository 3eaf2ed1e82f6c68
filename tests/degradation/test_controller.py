"""The phase in force goes down and comes back by what a window of questions shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.constants import section_of
from support.ticking import Clock

from rag_serving.config.phases import Degradation
from rag_serving.degradation.controller import (
    MOST_CHANGES,
    MOST_SAMPLES,
    OFF,
    Change,
    PhaseController,
    Sample,
    Window,
    percentile,
)

FAST, SLOW = 20.0, 900.0


class Tenant:
    """A controller with its clock, and what it told."""

    def __init__(self, configured: int = 3, **settings: Any) -> None:
        self.clock = Clock()
        self.told: list[Change] = []
        self.control = PhaseController(section_of(Degradation, **settings), configured, self.clock, self.told.append)

    def ask(self, ms: float = FAST, error: bool = False, lost: bool = False) -> int:
        turn = self.control.begin()
        self.control.end(turn, ms, error, lost)
        return turn.phase

    def ask_for(self, seconds: float, ms: float = FAST, error: bool = False, lost: bool = False) -> None:
        """Ask a question every five seconds."""
        for _ in range(int(seconds / 5)):
            self.clock.pass_by(5)
            self.ask(ms, error, lost)

    @property
    def phase(self) -> int:
        return self.control.in_force


def test_all_is_well_and_nothing_changes() -> None:
    tenant = Tenant()
    tenant.ask_for(3_600)
    assert (tenant.phase, tenant.told) == (3, [])


def test_one_slow_question_and_a_few_of_a_quiet_night_change_nothing() -> None:
    tenant = Tenant()
    tenant.ask_for(600)
    tenant.ask(60_000)
    tenant.ask_for(600)
    for _ in range(10):  # ten an hour, all slow: too few to judge by
        tenant.clock.pass_by(360)
        tenant.ask(SLOW)
    assert tenant.phase == 3


def test_a_slow_phase_goes_down_by_one_after_its_window_and_is_left_when_the_one_below_is_slow_too() -> None:
    tenant = Tenant()
    tenant.ask_for(295, SLOW)
    assert tenant.phase == 3
    tenant.ask_for(10, SLOW)
    assert tenant.phase == 2
    tenant.ask_for(290, SLOW)
    assert tenant.phase == 2
    tenant.ask_for(20, SLOW)
    assert tenant.phase == OFF
    assert [(change.direction, change.before, change.after) for change in tenant.told] == [
        ("down", 3, 2),
        ("down", 2, 0),
    ]
    assert "900 ms" in tenant.told[0].why


def test_a_phase_whose_errors_another_makes_good_goes_down_by_one() -> None:
    tenant = Tenant()
    tenant.ask_for(600)
    for number in range(120):  # one of ten fails
        tenant.clock.pass_by(5)
        tenant.ask(error=number % 10 == 0)
        if tenant.phase == 2:
            break
    assert tenant.phase == 2


def test_questions_that_no_phase_answers_leave_retrieval() -> None:
    tenant = Tenant()
    tenant.ask_for(305, error=True, lost=True)
    assert tenant.phase == OFF
    assert "no phase answered 100%" in tenant.told[0].why


def test_four_percent_of_errors_are_borne() -> None:
    tenant = Tenant()
    for number in range(1_000):
        tenant.clock.pass_by(5)
        tenant.ask(error=number % 25 == 0)
    assert tenant.phase == 3


def test_it_comes_back_one_phase_at_a_time_by_probes_after_a_quiet_time() -> None:
    tenant = Tenant()
    tenant.ask_for(305, error=True, lost=True)
    assert tenant.phase == OFF
    tenant.clock.pass_by(290)
    assert tenant.ask() == OFF
    tenant.clock.pass_by(10)
    assert [tenant.ask() for _ in range(4)] == [1, 1, 1, 1]
    assert tenant.phase == 1
    tenant.ask_for(300)
    seen = [tenant.phase]
    tenant.ask_for(900)
    seen.append(tenant.phase)
    assert seen == [1, 3]
    assert [change.after for change in tenant.told] == [0, 1, 2, 3]


def test_a_bad_probe_begins_another_quiet_time() -> None:
    tenant = Tenant()
    tenant.ask_for(305, error=True)
    assert tenant.phase == 2
    tenant.ask_for(300)
    assert tenant.ask(SLOW) == 3
    assert tenant.ask() == 2
    tenant.ask_for(290)
    assert (tenant.phase, tenant.ask()) == (2, 2)
    tenant.ask_for(30)
    assert tenant.phase == 3


def test_one_question_at_a_time_probes_and_a_lost_one_gives_way() -> None:
    tenant = Tenant()
    tenant.ask_for(305, error=True)
    tenant.clock.pass_by(300)
    first, second = tenant.control.begin(), tenant.control.begin()
    assert (first.phase, second.phase) == (3, 2)
    tenant.control.drop(first)
    assert tenant.control.begin().phase == 3
    assert tenant.control.begin().phase == 2
    tenant.clock.pass_by(61)
    assert tenant.control.begin().phase == 3


def test_what_an_operator_sets_is_in_force_at_once_and_forgets_what_was() -> None:
    tenant = Tenant()
    tenant.ask_for(305, error=True, lost=True)
    tenant.control.configure(2)
    assert tenant.phase == 2
    late = tenant.control.begin()
    tenant.control.configure(1)
    tenant.control.end(late, SLOW, is_error=True, is_lost=True)
    assert tenant.control.state().window.questions == 0
    tenant.control.configure(1)
    assert [change.direction for change in tenant.told] == ["down", "configured", "configured"]


def test_nothing_moves_by_itself_where_that_is_switched_off() -> None:
    tenant = Tenant(automatic=False)
    tenant.ask_for(3_600, SLOW, error=True, lost=True)
    assert tenant.phase == 3


def test_a_window_forgets_and_is_bounded() -> None:
    window = Window(300)
    for number in range(2 * MOST_SAMPLES):
        window.add(Sample(1_000 + number / 1_000, FAST))
    assert len(window) == MOST_SAMPLES
    assert window.figures(1_305).questions == MOST_SAMPLES
    assert window.figures(1_320) == window.figures(99_999)
    assert window.figures(1_320).questions == 0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.95]))
def test_a_percentile_is_exceeded_by_no_more_than_the_rest(times: list[float], share: float) -> None:
    found = percentile(sorted(times), share)
    assert sum(time > found for time in times) <= (1 - share) * len(times) + 1e-9
    assert found in times


@given(
    st.lists(
        st.tuples(st.floats(0, 400), st.floats(0, 2_000), st.booleans(), st.booleans(), st.booleans()), max_size=300
    ),
    st.sampled_from([1, 2, 3]),
)
def test_whatever_happens_the_phase_stays_in_its_bounds(
    questions: list[tuple[float, float, bool, bool, bool]], configured: int
) -> None:
    tenant = Tenant(configured, min_questions=3)
    for seconds, ms, error, lost, ended in questions:
        tenant.clock.pass_by(seconds)
        turn = tenant.control.begin()
        assert OFF <= turn.phase <= configured
        if ended:
            tenant.control.end(turn, ms, error or lost, lost)
        else:
            tenant.control.drop(turn)
        assert OFF <= tenant.phase <= configured
    assert len(tenant.control.state().changes) <= MOST_CHANGES
    for change in tenant.told:
        assert change.direction == "down" or change.after == change.before + 1


@pytest.mark.parametrize("probes", [1, 5])
def test_so_many_good_probes_in_a_row_bring_a_phase_back(probes: int) -> None:
    tenant = Tenant(probes=probes)
    tenant.ask_for(305, error=True)
    tenant.clock.pass_by(301)
    assert [tenant.ask() for _ in range(probes)] == [3] * probes
    assert tenant.phase == 3


def test_nobody_lowers_the_phase_of_others_by_what_he_asks() -> None:
    tenant = Tenant()
    for number in range(200):
        tenant.clock.pass_by(5)
        is_hostile = number % 2 == 0
        turn = tenant.control.begin("eve" if is_hostile else f"user{number}")
        tenant.control.end(turn, SLOW if is_hostile else FAST, is_hostile, is_hostile)
    assert tenant.phase == 3
    for number in range(40):
        tenant.clock.pass_by(5)
        tenant.control.end(tenant.control.begin(f"user{number % 7}"), FAST, is_error=number % 3 == 0)
    assert tenant.phase == 2
