"""Something is tried out on the same users each time, and on the questions of some spaces."""

from __future__ import annotations

from rag_serving.config.phases import Canary
from rag_serving.degradation.tenant_phases import is_chosen

USERS = [f"user{number}" for number in range(4_000)]


def chosen(canary: Canary) -> set[str]:
    return {user for user in USERS if is_chosen(canary, "acme", user)}


def test_the_share_is_kept_and_grows_by_adding_users() -> None:
    tenth, third = (chosen(Canary(phase=2, share=share)) for share in (0.1, 0.3))
    assert 320 < len(tenth) < 480
    assert 1_080 < len(third) < 1_320
    assert tenth < third
    assert chosen(Canary(phase=2, share=0.1)) == tenth
    assert chosen(Canary(phase=1, share=0.1)) != tenth
    assert chosen(Canary(phase=2)) == set()
    assert len(chosen(Canary(phase=2, share=1))) == len(USERS)


def test_who_has_no_name_is_chosen_with_everybody_alone() -> None:
    assert not is_chosen(Canary(phase=2, share=0.99), "acme", None)
    assert is_chosen(Canary(phase=2, share=1), "acme", None)


def test_questions_within_its_spaces_are_chosen() -> None:
    canary = Canary(phase=2, spaces=["OPS", "SRE"])
    assert is_chosen(canary, "acme", None, ["ops"])
    assert is_chosen(canary, "acme", "ann", ["OPS", "SRE"])
    assert not is_chosen(canary, "acme", "ann", ["OPS", "HR"])
    assert not is_chosen(canary, "acme", "ann", [])
    assert not is_chosen(Canary(phase=2), "acme", "ann", [])
