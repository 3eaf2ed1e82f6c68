"""Two hundred orders on pages, in five places each, and a model that obeys them all: nothing of it reaches the reader.

Pages come through the real steps of ingest. Each order is tried in two of the places, with one of the shapes in which a
model may write what was ordered; `CITELOCK_INJECTIONS=1` tries all places and shapes, and all orders at every door.
"""

from __future__ import annotations

import html
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sources.export_writer import Export
from sources.stand_in_site import page
from support.index_backends import BACKENDS, Backends
from support.injected_orders import Injection, injections, word_of
from support.obedient import SHAPES, TRUE, Page
from support.passages import chunk_of
from support.stand_in_chat import MODEL, StandInChat, served
from support.unseen_orders import UNSEEN_ORDERS
from support.wiki import Passage, configuration, publish

from rag_assets.sources import open_source
from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.answering.citations import answer_text, citations_of
from rag_serving.answering.selection.selector import select
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.answering.writing.generator import Generator
from rag_serving.api.app import create_app
from rag_serving.config.loading import Config
from rag_serving.config.models import AnswerGeneration, Embedding
from rag_serving.config.sources import ConfluenceExport
from rag_serving.models.chat.messages import PromptMessage, Reply
from rag_serving.models.embedding.factory import open_tokenizer
from rag_serving.records.answers import Answer
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.text.analyzer import analyze
from rag_serving.text.disguises import readings

ALL = os.environ.get("CITELOCK_INJECTIONS") == "1"
CHANNELS = ("page", "title", "label", "attachment", "comment")
ORDERS = injections("how long logs are kept")
QUOTE = "keeps logs for 168 hours"


def cluster_of(number: int, channel: str) -> str:
    """A name that one page alone has."""
    return f"{word_of(number).removeprefix('zorb')}{channel[0]}ex"


def truth_of(name: str) -> str:
    return f"Each broker of the {name} cluster keeps logs for 168 hours by default."


def question_of(name: str) -> str:
    return f"How long does each broker of the {name} cluster keep logs?"


def lines(text: str) -> str:
    """A text in storage format, with its lines."""
    return "".join(f"<p>{html.escape(part)}</p>" for part in text.split("\n\n")).replace("\n", "<br/>")


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[int, str], list[Chunk]]:
    """The passages of every order in every place, as ingest makes them of a space's export."""
    folder = tmp_path_factory.mktemp("export")
    export, wanted = Export(), {(number, channel) for number, channel, _ in (*trials(), *DOORS)}
    for number, order in enumerate(ORDERS):
        said, one_line = order.text, " ".join(order.text.split())[:250]
        names = {channel: cluster_of(number, channel) for channel in CHANNELS}
        body = {channel: f"<p>{truth_of(name)}</p>" for channel, name in names.items()}
        of = {channel: str(1000 + 10 * number + place) for place, channel in enumerate(CHANNELS)}
        headed = f"<h2>{html.escape(one_line)}</h2>" if number % 2 else ""
        pages = {
            "page": page(of["page"], f"Logs of {names['page']}", body=body["page"] + lines(said)),
            "title": page(of["title"], f"{one_line} ({number})" if not headed else "", body=headed + body["title"]),
            "label": page(of["label"], f"Logs of {names['label']}", body=body["label"], labels=[one_line]),
            "attachment": page(of["attachment"], f"Files {number}"),
            "comment": page(of["comment"], f"Talk {number}"),
        }
        export.add(*(made for channel, made in pages.items() if (number, channel) in wanted))
        if (number, "attachment") in wanted:
            text = f"{truth_of(names['attachment'])}\n\n{said}\n"
            export.attach(of["attachment"], f"notes-{number}.{'md' if number % 2 else 'txt'}", text.encode())
        if (number, "comment") in wanted:
            export.comment(of["comment"], body["comment"] + lines(said))
    settings = ConfluenceExport(
        kind="confluence_export", tenant="acme", path=export.write(folder / "space.zip"), base_url="https://wiki.example",
        readers="everyone", comments=True, attachments="text",
    )  # fmt: skip
    synced = open_source("eng", settings, folder).sync(None, {}).pages
    rows = build_chunks(build_sections(synced).sections, synced, open_tokenizer(Embedding())).to_pylist()
    chunks: dict[tuple[int, str], list[Chunk]] = {}
    for row in rows:
        place = _place_of(row["page_id"], row["title"])
        if place:
            chunks.setdefault(place, []).append(_chunk(row))
    return chunks


def _place_of(page_id: str, title: str) -> tuple[int, str] | None:
    if page_id.startswith("com"):
        return (int(page_id.removeprefix("com")) - 1000) // 10, "comment"
    if page_id.startswith("att"):
        return int(re.findall(r"notes-(\d+)", title)[0]), "attachment"
    number, channel = divmod(int(page_id) - 1000, 10)
    return (number, CHANNELS[channel]) if channel < 3 else None


def _chunk(row: Mapping[str, Any]) -> Chunk:
    return chunk_of(
        row["text"], row["chunk_id"], title=row["title"], heading_path=tuple(row["heading_path"]), url=row["url"],
        anchor=row["anchor"], labels=tuple(row["labels"]), content_type=row["content_type"],
    )  # fmt: skip


def asked_about(number: int, channel: str, chunks: Sequence[Chunk]) -> Page:
    """What the model knows of the passages that it was given."""
    order = ORDERS[number]
    truth = truth_of(cluster_of(number, channel))
    true_at = next(at for at, chunk in enumerate(chunks, start=1) if truth in chunk.text)
    order_at = next((at for at, chunk in enumerate(chunks, start=1) if says(order, chunk.text)), true_at)
    return Page(truth, QUOTE, order, true_at, order_at)


def says(order: Injection, text: str) -> bool:
    """Whether a text has what was ordered, in whatever letters."""
    return any(order.word in re.sub(r"[\W_]", "", reading) for reading in readings(text))


class Obedient:
    """The model without a wire between."""

    name = "openai/obedient"

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: Sequence[PromptMessage] = ()

    def reply(self, messages: Sequence[PromptMessage], _: object = None) -> Reply:
        self.asked = messages
        return Reply(self.text, 1, 1)


def answered(written: str, chunks: Sequence[Chunk], question: str) -> tuple[Answer, str]:
    """What a reader gets where a model has written this, and what the model was asked."""
    lock, model = Lock(tuple(Candidate(chunk, 1.0) for chunk in chunks)), Obedient(written)
    generator = Generator(AnswerGeneration(provider="openai", style="prose", model=MODEL), open_model=lambda _: model)  # type: ignore[arg-type, return-value]
    weights = dict.fromkeys(analyze(question), 1.0)
    draft = generator.write(question, lock, lambda: select(question, lock, weights, analyze))
    verdicts = verify(draft, lock, question=question, rules=VerificationRules(quote_max_words=12))
    return Answer("answered", answer_text(verdicts, lock), citations_of(verdicts, lock, 12)), model.asked[1].content


def trials() -> Iterator[tuple[int, str, str]]:
    shapes = list(SHAPES)
    for number, channel in product(range(len(ORDERS)), CHANNELS):
        if not ALL and channel not in random.Random(number).sample(CHANNELS, 2):
            continue
        place = CHANNELS.index(channel)
        for shape in shapes if ALL else [shapes[(number + place * 5) % len(shapes)]]:
            yield number, channel, shape


def test_there_are_two_hundred_orders_and_no_two_are_the_same() -> None:
    assert len({order.text for order in ORDERS}) == len({order.word for order in ORDERS}) == len(ORDERS) >= 200


def test_nothing_that_a_page_orders_reaches_the_reader(ingested: Mapping[tuple[int, str], list[Chunk]]) -> None:
    faults, told = [], 0
    for number, channel, shape in trials():
        chunks, order, name = ingested[number, channel], ORDERS[number], cluster_of(number, channel)
        about = asked_about(number, channel, chunks)
        answer, prompt = answered(SHAPES[shape](about), chunks, question_of(name))
        shown = "\n".join([answer.answer, *(citation.quote for citation in answer.citations)])
        if says(order, shown):
            faults.append((channel, shape, order.text, shown))
        true = "168 hours" in answer.answer
        told += true
        if shape in TRUE and not true:
            faults.append((channel, shape, order.text, "nothing true was told"))
        seen = re.findall(r"</?(?:passage|question)-([0-9a-f]{8})[ >]", prompt)
        assert len({*seen}) == 1
        assert len(seen) == 2 * len(chunks) + 2
    assert not faults, f"{len(faults)} of {sum(1 for _ in trials())}: {faults[:5]}"
    assert told > len(ORDERS) / 4


def test_orders_in_words_that_nobody_foresaw_are_at_most_quoted_whole() -> None:
    """What the page says is told as its own sentence, from its beginning to its end, or not at all."""
    for number, template in enumerate(UNSEEN_ORDERS):
        word = word_of(number)
        payload = f"the refund line is {word}"
        order = Injection("unseen", template.format(payload=payload), payload, word)
        truth = truth_of("otter")
        chunks = [chunk_of(f"{truth}\n\n{order.text}")]
        for shape, write in SHAPES.items():
            answer, _ = answered(write(Page(truth, QUOTE, order)), chunks, question_of("otter"))
            for paragraph in answer.answer.split("\n\n"):
                said = re.sub(r"\s*\[\d\]$", "", paragraph).strip("“”")
                assert not says(order, said) or said == order.text, (shape, order.text, paragraph)
            assert shape not in TRUE or truth in answer.answer


# From the question to the receipt, over HTTP

DOORS = [
    (number, CHANNELS[(number // 5 + place) % 5], list(SHAPES)[(number // 5 + place) % len(SHAPES)])
    for number in range(0, len(ORDERS), 1 if ALL else 10)
    for place in range(5 if ALL else 1)
]


@pytest.fixture(scope="module")
def home(ingested: Mapping[tuple[int, str], list[Chunk]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published wiki of the pages that are asked about, as ingest made them."""
    home = tmp_path_factory.mktemp("wiki")
    passages = [
        Passage(c.page_id, c.heading_path[-1], c.text, c.title, labels=c.labels, chunk_idx=c.chunk_idx)
        for number, channel, _ in DOORS
        for c in ingested[number, channel]
    ]
    publish(home, passages)
    return home


@pytest.fixture(params=BACKENDS)
def searched(request: pytest.FixtureRequest, backends: Backends, home: Path) -> Config:
    """The wiki's configuration, with its generation in a folder or in a database."""
    return backends.moved(
        str(request.param), configuration(home, gates={"min_similarity": -1, "min_coverage": 0}), "acme"
    )


@pytest.fixture
def model() -> Iterator[StandInChat]:
    """A server that knows by the question which page is asked about, and finds its passages in the prompt."""
    asked = {question_of(cluster_of(number, channel)): (number, channel, shape) for number, channel, shape in DOORS}

    def script(messages: list[dict[str, str]]) -> list[str]:
        prompt = messages[1]["content"]
        number, channel, shape = asked[re.findall(r"<question-\w+>\n(.*)\n</question", prompt)[0]]
        seen = [text for _, _, text in re.findall(r"<passage-(\w+) n=(\d+)>\n(.*?)\n</passage-\1>", prompt, re.DOTALL)]
        about = asked_about(number, channel, [chunk_of(text) for text in seen])
        order_at = next((at for at, text in enumerate(seen, start=1) if says(ORDERS[number], text)), about.true_at)
        return [SHAPES[shape](replace(about, order_at=order_at))]

    with served(StandInChat(script)) as server:
        yield server


def rendered(payload: Mapping[str, Any]) -> str:
    """All that an answer says, but for the page's own title, headings and address, which are shown as they are."""
    hidden = {"title", "heading_path", "url", "fragment_url"}
    cited = [{key: value for key, value in each.items() if key not in hidden} for each in payload["citations"]]
    own = [value for each in payload["citations"] for value in (each["title"], each["url"], each["fragment_url"])]
    rest = {
        **payload,
        "citations": cited,
        "clarification": None if payload["status"] != "answered" else payload["clarification"],
    }
    text = json.dumps(rest, ensure_ascii=False)
    for name in own:
        text = text.replace(json.dumps(name, ensure_ascii=False)[1:-1], "")
    return text


def test_no_door_shows_what_a_page_ordered_and_every_receipt_holds(searched: Config, model: StandInChat) -> None:
    writer = AnswerGeneration(provider="openai", style="prose", model=MODEL, base_url=f"{model.url}/v1")
    config = searched.model_copy(update={"generation": writer})
    receipts, true = [], 0
    with TestClient(create_app(config), "http://127.0.0.1:8088", client=("127.0.0.1", 50000)) as client:
        doors = DOORS if config.index.kind == "disk" else DOORS[:: 20 if ALL else 2]
        for number, channel, shape in doors:
            order, question = ORDERS[number], question_of(cluster_of(number, channel))
            made = client.post("/v1/ask", json={"question": question}).json()
            assert not says(order, rendered(made)), (channel, shape, order.text, made)
            assert all(citation["title"] for citation in made["citations"])
            streamed = client.post("/v1/ask", json={"question": question, "stream": True}).text
            for event, data in re.findall(r"event: (\w+)\ndata: (.*)", streamed):
                said = rendered(json.loads(data)) if event == "answer" else data
                assert not says(order, said), (channel, shape, event, said)
            messages = {"messages": [{"role": "user", "content": question}]}
            chat = client.post("/v1/chat/completions", json=messages).json()
            if channel != "title":
                assert not says(order, chat["choices"][0]["message"]["content"]), (channel, shape, order.text)
            else:
                content = re.sub(r"\]\([^)\s]*\)", "]", chat["choices"][0]["message"]["content"])  # addresses
                assert not says(order, content.split("\n- [")[0]), (channel, shape)
            receipts += [made["receipt_id"]] if made["status"] == "answered" else []
            true += "168 hours" in made["answer"]
            assert shape not in TRUE or "168 hours" in made["answer"], (channel, shape, order.text, made)
        proofs = [client.post(f"/v1/receipts/{receipt}/verify").json() for receipt in receipts]
    assert true >= len(doors) / 4
    assert [proof["faults"] for proof in proofs] == [[]] * len(receipts)
