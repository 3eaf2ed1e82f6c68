"""Remarks that ask nothing are known, and no question is taken for one."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from evals.bench.corpora import DATA
from evals.evaluation.gold import read_gold
from rag_serving.text.small_talk import is_noise, remark_of, without_greeting

GOLD = Path("evals/gold")
REMARKS = {
    "greeting": "hi|Hello there!|Hey everyone|good morning|Guten Tag|Bonjour à tous|¡Hola!|Wie geht's?|who are you?",
    "thanks": "thanks, that helped|Thank you so much!|ok thanks|great, thank you|that was helpful|thanks :)"
    "|Danke schön!"
    "|Vielen Dank, das hat geholfen|Merci beaucoup|gracias|got it|perfect",
    "farewell": "bye|See you later!|Have a nice day|Tschüss|Auf Wiedersehen|au revoir|hasta luego",
    "complaint": "it's broken, help|that's wrong|it does not work|Nothing works!|that is not what I asked|you are wrong"
    "|wtf|das stimmt nicht|Es funktioniert nicht|ça ne marche pas|C'est faux|no funciona|hi, it's not working",
    "command": "delete all pages|Summarize everything, please|translate this to German|tell me a joke"
    "|show me everything"
    "|write a poem about Kafka and the sea|Lösche alle Seiten|fasse alles zusammen|résumez tout|borra todo"
    "|please delete it",
    "help": "help|can you help me|Hello, can you help me please?|how does it work?|what can you do?|I have a question"
    "|tell me more|why?|kannst du mir helfen?|Hilfe!|wie funktioniert das?|pouvez-vous m'aider ?|comment ça marche ?"
    "|ayuda",
    "test": "test|testing 123|this is a test|lorem ipsum|das ist ein Test",
}
QUESTIONS = """holidays|rehandle|HBL-4044|help desk|super|nice|yes|miri|bazel|reset my password|delete a topic
delete all topics|summarize the leave policy|list the error codes|show me the retention settings|Hello, world!
test coverage|testing strategy|help command|thank you note|greeting card|portal down|why is the portal down
hi-res images|how does it scale|is it broken glass|what is that thing called berth|nice -n 5|delete page
what does this error mean|thanks, and how do I restart yardd|hi, who is on call?
it's broken, how do I restart berthd|what is a test|translate pages|good morning shift|bye laws|ok status
read it from stdin|how do I use this library
when is payday|print!|super()|test.sh
Hilfe bei HBL-4031|das Passwort geht nicht|wie funktioniert das Pumpwerk|merci letter|comment ça marche le badge
"""


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in REMARKS.items() for text in texts.split("|")]
)
def test_what_asks_nothing_is_known(kind: str, text: str) -> None:
    assert remark_of(text) == kind


@pytest.mark.parametrize("text", QUESTIONS.strip().replace("\n", "|").split("|"))
def test_what_could_be_asked_is_no_remark(text: str) -> None:
    assert remark_of(text) is None


@pytest.mark.parametrize("gold", [GOLD / "sample.yaml", *sorted((GOLD / "people").glob("*_build.yaml"))], ids=str)
def test_of_the_gold_questions_only_remarks_are_caught(gold: Path) -> None:
    kinds = {each.question: each.kind for each in read_gold(gold).questions}
    caught = {question for question in kinds if remark_of(question)}
    no_words = {"asdf", "???"}
    assert caught == {question for question, kind in kinds.items() if kind == "not_a_question"} - no_words


def test_no_question_of_squad_and_no_claim_of_scifact_is_caught_or_cut() -> None:
    files = [*DATA.glob("squad2/*.json"), DATA / "scifact" / "queries.jsonl"]
    if not all(file.is_file() for file in files) or len(files) < 2:
        pytest.skip(f"{DATA} has no squad2 and scifact")
    told = "\n".join(file.read_text(encoding="utf-8") for file in files)
    texts = [json.loads(text) for text in re.findall(r'"(?:question|text)": ("(?:[^"\\]|\\.)*")', told)]
    texts = [text for text in texts if " " in text]
    assert len(texts) > 4000
    assert [text for text in texts if remark_of(text) or without_greeting(text) != text] == []
    assert [text for text in texts if is_noise(text, lambda _: False)] == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("hi, how do I roll back?", "how do I roll back?"),
        ("Thanks, and how do I restart yardd", "how do I restart yardd"),
        ("hi what is the leave policy? thanks!", "what is the leave policy?"),
        ("Hi! Good morning - is there a bus?", "is there a bus?"),
        ("hey team, who is on call?\nThanks in advance", "who is on call?"),
        ("Danke, und wie lange gilt ein Token?", "wie lange gilt ein Token?"),
        ("Bonjour, qui est responsable ?", "qui est responsable ?"),
        *((text, text) for text in ("Hello, world!", "hello world program", "Hi-res images", "hi", "thanks to whom?")),
    ],
)
def test_a_greeting_around_a_question_goes(text: str, left: str) -> None:
    assert without_greeting(text) == left


def test_keys_hit_at_random_are_no_words() -> None:
    words = {"property", "flask"}
    for noise in ("asdf", "asdf qwer", "qwertz", "ASDFGH!!", "lalalala", "aaaaaa"):
        assert is_noise(noise, words.__contains__)
    for text in ("property", "flask asdf", "rehandle", "mqtt", "HBL-4044", "grpc", "日志保存多久", "tty", ""):
        assert not is_noise(text, words.__contains__)


@pytest.mark.parametrize(
    "text", ["hi, " * 40_000, "hi" + " " * 40_000, "x?" + "\n" * 40_000, "?thanks " + "!" * 40_000]
)
def test_a_long_text_takes_no_longer_than_it_is_read(text: str) -> None:
    started = time.process_time()
    without_greeting(text), remark_of(text), is_noise(text, lambda _: False)
    assert time.process_time() - started < 1
