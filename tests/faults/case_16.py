"""Settings changed to and fro: each change starts a run of its own key, and none waits as after a failure."""

from __future__ import annotations

from pathlib import Path

from rag_assets.state.planning import PublishAttempt, publish_requests


def check(folder: Path, _: Path) -> None:
    assert (folder / "README.md").is_file()
    keys, published, memory = [], "a", PublishAttempt()
    for minute, wanted in enumerate(["b", "a", "b", "a", "b"]):
        decision = publish_requests({"t": wanted}, {"t": published}, (), (), {"t": memory}, 60.0 * minute)
        assert decision.start == {"t": wanted}
        keys.append(decision.memory["t"].run_key("t"))
        published, memory = wanted, decision.memory["t"]
    assert len(set(keys)) == len(keys)
