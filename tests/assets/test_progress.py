"""How far a step is."""

from __future__ import annotations

from rag_assets.progress import LogReporter


def test_the_log_is_told_the_end_but_not_every_step() -> None:
    said: list[str] = []
    advance = LogReporter().track("texts embedded", said.append)
    for done in range(1, 1001):
        advance(done, 1000)
    advance(1000, 1000)
    assert len(said) == 1
    assert said[0].startswith("texts embedded 1000/1000")
