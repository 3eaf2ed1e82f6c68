"""What the stand-in chat server says to RAGAS' prompts: well-formed JSON, decided by the words that texts share.

The prompts are those of RAGAS 0.4: a JSON schema, whose title names what is asked for, and the input as JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any

from support.stand_in_chat import Script

_INPUT = re.compile(r"Now perform the same with the following input\ninput: (?P<json>.*)\nOutput: $", re.DOTALL)
_SCHEMA = "complies with the following schema as specified in JSON Schema:\n"


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text.strip())


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def question_about(text: str) -> str:
    """The question that a text answers: it asks for the first sentence's last word."""
    *known, _ = sentences(text)[0].rstrip(".!?").split()
    return f"{' '.join(known)} what?"


def answers_ragas(messages: list[dict[str, str]]) -> list[str]:
    """A `Script` of the stand-in chat server."""
    prompt = messages[-1]["content"]
    schema, _ = json.JSONDecoder().raw_decode(prompt.partition(_SCHEMA)[2])
    found = _INPUT.search(prompt)
    assert found, prompt
    return [json.dumps(_ANSWERS[schema["title"]](json.loads(found["json"])))]


def says(text: str) -> Script:
    """A model that says the same to everything."""
    return lambda _: [text]


def _statements(given: dict[str, Any]) -> dict[str, Any]:
    return {"statements": sentences(given["answer"])}


def _faithful(given: dict[str, Any]) -> dict[str, Any]:
    """A statement follows from the context that has all its words."""
    known = words(given["context"])
    judged = [
        {"statement": text, "reason": "its words", "verdict": int(words(text) <= known)} for text in given["statements"]
    ]
    return {"statements": judged}


def _question(given: dict[str, Any]) -> dict[str, Any]:
    return {"question": question_about(given["response"]), "noncommittal": int("not know" in given["response"])}


def _useful(given: dict[str, Any]) -> dict[str, Any]:
    """A context is useful that has half of the answer's words."""
    wanted = words(given["answer"])
    return {"reason": "its words", "verdict": int(2 * len(wanted & words(given["context"])) >= len(wanted))}


def _attributed(given: dict[str, Any]) -> dict[str, Any]:
    known = words(given["context"])
    judged = [
        {"statement": text, "reason": "its words", "attributed": int(words(text) <= known)}
        for text in sentences(given["answer"])
    ]
    return {"classifications": judged}


def _mended(given: dict[str, Any]) -> dict[str, Any]:
    """Asked to mend what could not be read, it says the same again."""
    return {"text": given["output_string"]}


_ANSWERS = {
    "StringIO": _mended,
    "StatementGeneratorOutput": _statements,
    "NLIStatementOutput": _faithful,
    "ResponseRelevanceOutput": _question,
    "Verification": _useful,
    "ContextRecallClassifications": _attributed,
}
