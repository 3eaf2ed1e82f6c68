"""A model server that hangs, as the asset's page tells of it."""

from __future__ import annotations

from support.envelopes import Wiki
from support.stand_in_chat import MODEL, Fault, StandInChat, served

from rag_assets.build.runner import Runner
from rag_assets.progress import Reporter
from rag_serving.config.loading import load_config


def test_a_hung_model_is_named_on_the_assets_page_and_holds_nothing(wiki: Wiki) -> None:
    server = StandInChat()
    server.faults.extend([Fault(hang_s=60)] * 50)
    with served(server):
        wiki.configure(context={"provider": "ollama", "model": MODEL, "base_url": server.url, "timeout_s": 0.5})
        runner = Runner(load_config(wiki.config_path), wiki.config_path, Reporter(), None, False)
        try:
            for source in ("eng", "ops"):
                assert runner.run("ingest", source).error is None
            outcome = runner.run("publish", "demo")
        finally:
            runner.close()
    assert outcome.error is None
    expected = outcome.metadata["dedup_map"]["contexts_estimate"]  # before any model is asked
    assert (expected["contexts_wanted"], expected["calls"], expected["cost"]) == (4, 4, {f"ollama/{MODEL}": 0.0})
    told = outcome.metadata["contexts"]
    assert told["contexts_failed"] == 4
    assert told["levels"] == {"metadata": 4}
    assert "did not answer in time" in told["failures"]
    assert outcome.seconds["contexts"] < 30
