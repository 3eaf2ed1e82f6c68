"""Prompts that chat clients send behind the conversation are answered at once and cite nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.api_client import client_of, completion_chunks

from rag_serving.api.openai import task_reply

HISTORY = """<chat_history>
USER: How long can a release be rolled back by us?
ASSISTANT: 7 days.
</chat_history>"""
TITLE = f"""### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: {{ "title": "your concise title here" }}
### Chat History:
{HISTORY}"""
TASKS = {
    TITLE: {"title": "How long can a release be"},
    f'### Task:\nGenerate 1-3 broad tags.\n### Output:\nJSON: {{"tags": ["tag1"]}}\n{HISTORY}': {
        "tags": ["Documentation"]
    },
    f'### Task:\nSuggest 3-5 relevant follow-up questions.\nJSON format: {{ "follow_ups": ["?"] }}\n{HISTORY}': {
        "follow_ups": []
    },
    f'### Task:\nDecide whether to search the web.\n{{ "queries": ["a"] }}\n{HISTORY}': {"queries": []},
}


@pytest.mark.parametrize(("prompt", "reply"), TASKS.items())
def test_a_clients_own_prompt_is_answered_in_its_format(prompt: str, reply: dict[str, object]) -> None:
    told = task_reply(prompt)
    assert told is not None
    assert json.loads(told) == reply


def test_a_title_in_plain_text_is_the_first_words_of_the_conversation() -> None:
    prompt = (
        "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the "
        "title itself.\n\nConversation:\nUser: May I bring my dog to the office?\nAI: Yes."
    )
    assert task_reply(prompt) == "May I bring my dog to"


@pytest.mark.parametrize(
    "question",
    [
        "What is the title of the page about berths?",
        "How do I give a short title to a chat room in the conversation tool?",
        "### Task: what does the deploy task do?",
        "What are tags?",
        "Who keeps the chat history, and for how long?",
    ],
)
def test_a_persons_question_is_none(question: str) -> None:
    assert task_reply(question) is None


@pytest.mark.parametrize("stream", [False, True])
def test_it_reaches_no_page_and_leaves_no_receipt(wiki_home: Path, stream: bool) -> None:
    with client_of(wiki_home) as client:
        body = {"messages": [{"role": "user", "content": TITLE}], "stream": stream}
        response = client.post("/v1/chat/completions", json=body)
        given = {"input": TITLE, "stream": stream}
        responded = client.post("/v1/responses", json=given).text
    if stream:
        deltas = [choice["delta"] for chunk in completion_chunks(response.text) for choice in chunk["choices"]]
        assert "".join(delta.get("content", "") for delta in deltas) == json.dumps(TASKS[TITLE])
    else:
        made = response.json()
        assert made["choices"][0]["message"]["content"] == json.dumps(TASKS[TITLE])
        assert "citelock" not in made
    assert "receipt" not in response.text + responded
    assert "How long can a release be" in responded


def test_without_a_published_generation_it_is_answered_all_the_same(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": TITLE}]}
    assert client_of(tmp_path).post("/v1/chat/completions", json=body).status_code == 200
