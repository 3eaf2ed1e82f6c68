"""Promises 1 and 2 over whole questions: generated wikis, and drafts by a writer that lies about them.

Every citation stands verbatim in the cited version of its page and was locked; every link lands on an anchor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.wiki import Passage, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.answering.lock import has_anchor
from rag_serving.answering.writing.generator import Generator
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.models import AnswerGeneration as Settings
from rag_serving.indexes.generation import Generation
from rag_serving.models.chat.client import Listen
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Lock
from rag_serving.records.queries import PLAIN, Occasion

SENTENCES = (
    "A broker must not be restarted while replicas are offline.",
    "Each broker keeps “old” logs for 168 hours — by default.",
    "- Wait 1.5 hours after the broker was upgraded.\n- Then tell the team.",
    "| Setting | Default |\n|---|---|\n| broker.timeout.ms | 45000 |",
    "Ein Broker läuft nie länger als 30 Tage ohne Neustart.",
    "Wait until the broker is in sync again, then go on.",
    "```\nbrokerctl restart --id 3 --wait\n```",
)
SLIPS = (("not ", ""), ("168", "186"), ("1.5", "15"), ("never", "ever"), ("broker", "brokers"), ("“", '"'), ("3", "4"))


@st.composite
def wikis(draw: st.DrawFn) -> list[Passage]:
    """Two to five pages in several versions; some repeat a sentence, some stand in two places."""
    pages = []
    for number in range(draw(st.integers(2, 5))):
        text = "\n\n".join(draw(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4)))
        heading = draw(st.sampled_from(["Restart", "Über Logs (alt)", "FAQ: why?", "A → B"]))
        places = draw(st.sampled_from([(), (("90", "DOC", "everyone"),)]))
        version = draw(st.integers(1, 40))
        pages.append(Passage(str(number + 1), heading, text, "Broker guide", version=version, places=places))
    return pages


class Liar(Generator):
    """Writes claims that cut, slip, and cite whatever was drawn."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        super().__init__(Settings())
        self.draw = draw

    def write(
        self,
        question: str,
        lock: Lock,
        extracted: Callable[[], Draft],
        listen: Listen | None = None,
        occasion: Occasion = PLAIN,
    ) -> Draft:
        assert question
        assert callable(extracted)
        assert callable(listen)
        assert occasion == PLAIN
        return Draft(tuple(self._claim(lock) for _ in range(self.draw(st.integers(1, 5)))), "liar")

    def _claim(self, lock: Lock) -> Claim:
        text = lock.passages[self.draw(st.integers(0, len(lock) - 1))].chunk.text
        start = self.draw(st.integers(0, len(text) - 1))
        quote = text[start : start + self.draw(st.integers(8, 90))].strip()
        slip = self.draw(st.integers(0, 2 * len(SLIPS)))
        if slip < len(SLIPS):
            quote = quote.replace(*SLIPS[slip])
        sentence = quote if self.draw(st.integers(0, 1)) else f"The guide says: “{quote}”"
        return Claim(sentence, self.draw(st.integers(-1, len(lock) + 1)), quote)


def check(answer: Answer, pipeline: Pipeline) -> None:
    receipt = pipeline.receipts.get(answer.receipt_id or "", "acme")
    locked = {passage["chunk_id"]: passage for passage in receipt["passages"]}
    generation = Generation.open(Store(pipeline.config.home), "acme", answer.generation, pipeline.config)
    for citation in answer.citations:
        chunk = generation.chunk(generation.row_of(citation.chunk_id) or 0)
        assert chunk.chunk_id == citation.chunk_id
        assert chunk.version == citation.page_version == locked[citation.chunk_id]["page_version"]
        assert chunk.text[citation.start : citation.end] == citation.quote != ""
        assert all(has_anchor(url) for url in (citation.url, *(place.url for place in citation.also_at)))
        assert citation.url == chunk.url
        assert citation.fragment_url.startswith(f"{citation.url}:~:text=")
    generation.close()
    assert (answer.status == "answered") == bool(answer.citations)
    assert pipeline.proof(answer.receipt_id or "").faults == ()


@settings(max_examples=examples(0.15))
@given(wikis(), st.data())
def test_whatever_is_written_each_citation_stands_in_its_page_and_each_link_has_an_anchor(
    pages: list[Passage], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as home:
        publish(Path(home), pages)
        pipeline = Pipeline.open(configuration(Path(home)), "acme", embedder())
        for generator in (pipeline.answering.generator, Liar(data.draw), Liar(data.draw)):
            pipeline.answering.generator = generator
            check(pipeline.ask(Principal("acme"), "When may a broker be restarted or upgraded?"), pipeline)
        pipeline.close()
