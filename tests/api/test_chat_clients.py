"""Clients that people run, against a real server: OpenAI's, LangChain, and `llm` in a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest
from support.running import running
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import RESTART, configuration

from rag_serving.api.app import create_app

QUESTION = "May I restart a broker while partitions are under-replicated?"
LINK = f"{RESTART} [[1]](https://wiki.example/pages/11#Restarting-a-broker:~:text="

LANGCHAIN = """
import sys
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
url, question = sys.argv[1:]
for uses_responses in (False, True):
    model = ChatOpenAI(model="citelock-acme", base_url=url, api_key="none", use_responses_api=uses_responses)
    said = model.invoke([("system", "Be brief."), ("user", question)])
    print(said.text)
    print("".join(chunk.text for chunk in model.stream(question)))
embeddings = OpenAIEmbeddings(model="all-MiniLM-L6-v2", base_url=url, api_key="none", check_embedding_ctx_length=False)
print(len(embeddings.embed_query(question)))
"""


@pytest.fixture(scope="module")
def url(wiki_home: Path) -> Iterator[str]:
    with running(create_app(configuration(wiki_home))) as address:
        yield f"{address}/v1"


def test_openai_s_own_client_asks_by_responses_and_embeds(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=30) as client:
        made = client.responses.create(model="citelock-acme", input=QUESTION)
        assert made.output_text.startswith(LINK)
        (annotation,) = made.output[0].content[0].annotations
        assert made.output_text[annotation.start_index : annotation.end_index] == f"[[1]]({annotation.url})"
        with client.responses.stream(model="citelock-acme", input=QUESTION) as stream:
            said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            assert (said, stream.get_final_response().output_text) == (made.output_text, made.output_text)
        vectors = client.embeddings.create(model="all-MiniLM-L6-v2", input=["a", "b"])
        assert {len(item.embedding) for item in vectors.data} == {384}
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="citelock-none", input=QUESTION)


def test_langchain_asks_both_ways_streams_and_embeds(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", LANGCHAIN, url, QUESTION], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(LINK) == 4
    assert done.stdout.endswith("\n384\n")


def llm_in(folder: Path, url: str, model: str) -> Callable[..., str]:
    """Return what asks a model of this server in a terminal."""
    lines = ["- model_id: citelock", f"  model_name: {model}", f"  api_base: {url}", ""]
    (folder / "extra-openai-models.yaml").write_text("\n".join(lines))
    environment = {**os.environ, "LLM_USER_PATH": str(folder), "OPENAI_API_KEY": "none"}

    def llm(*arguments: str) -> str:
        command = [sys.executable, "-m", "llm", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return llm


def test_llm_in_a_terminal_asks_and_goes_on(url: str, tmp_path: Path) -> None:
    llm = llm_in(tmp_path, url, "citelock-acme")
    assert llm("-m", "citelock", "-s", "Be brief.", QUESTION).startswith(LINK)
    assert "Read as: why: restart a broker while partitions are under-replicated?" in llm("-c", "--no-stream", "why?")


PROXIED = """
import sys
from langchain_openai import ChatOpenAI
model = ChatOpenAI(model=sys.argv[2], base_url=sys.argv[1], api_key="none")
print(model.invoke("How long?").text)
print("".join(chunk.text for chunk in model.stream("How long?")))
"""


@pytest.mark.nightly
def test_langchain_and_llm_show_what_the_pages_say_of_a_proxied_answer(wiki_home: Path, tmp_path: Path) -> None:
    marks = (
        "- **word for word**: Stop the broker",
        "- **the page says otherwise**: Each broker keeps logs for 72 hours",
    )
    said = [f"{RESTART} ", "Each broker keeps logs for 72 hours by default."]
    with served(StandInChat(lambda _: said)) as upstream:
        serving = {"check_proxy": {"upstream": f"{upstream.url}/v1"}}
        with running(create_app(configuration(wiki_home, serving=serving))) as address:
            url = f"{address}/proxy/v1"
            llm, run = llm_in(tmp_path, url, MODEL), [sys.executable, "-c", PROXIED, url, MODEL]
            done = subprocess.run(run, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            assert [done.stdout.count(mark) for mark in marks] == [2, 2]
            for more in ([], ["--no-stream"]):
                told = llm("-m", "citelock", *more, "How long?")
                assert [told.count(mark) for mark in marks] == [1, 1]
