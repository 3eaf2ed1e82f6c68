"""How far a step is."""

from __future__ import annotations

from rag_assets.progress import LogReporter, pace_of


def test_pace_tells_rate_and_remaining_time() -> None:
    assert pace_of(done=30, total=90, seconds=10) == "3.0/s, 20 s left"


def test_nothing_done_has_no_pace() -> None:
    assert pace_of(0, 90, 10) == ""


def test_the_log_is_told_the_end_but_not_every_step() -> None:
    said: list[str] = []
    advance = LogReporter().track("texts embedded", said.append)
    for done in range(1, 1001):
        advance(done, 1000)
    advance(1000, 1000)
    assert len(said) == 1
    assert said[0].startswith("texts embedded 1000/1000")
