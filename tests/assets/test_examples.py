"""Every example question of README, docs and help texts is answered on the samples as is shown, or as one would expect.

`python scripts/examples.py --write` puts what the product prints now into the blocks that show it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from rag_serving.answering.gates import NOT_FOUND

ROOT = Path(__file__).parents[2]
# What the output of an example holds that is not shown beside it.
EXPECTED = {
    "citelock ask 'How do I roll back a release?'": "hbl release rollback --port SKV --to previous --drain 120s",
    'citelock ask "How do I roll back a release?"': "hbl release rollback --port SKV --to previous --drain 120s",
    'citelock ask "How long can a release be rolled back?"': "A release can be rolled back for 7 days",
    'citelock ask "Who releases the reserve for incidents?" --user ann --group finance': "by the head of finance alone",
    'citelock ask "How long are logs kept?" --json | jq .citations': '"quote": "Log files are kept for 35 days',
    'citelock ask "How long are logs kept?" --format markdown >> notes.md': "- [1] [Configuration Reference",
    "citelock ask 'What does \"exit code\" 137 mean? space:ENG' --explain": "Killed, nearly always for lack of memory",
    'citelock search "release rollback"': "1. Rolling Back a Release",
    "citelock search berth.scheduler.max_parallel -k 3 --space ENG": "berth.scheduler.max_parallel | 6 | 1 to 16",
    "citelock search 'label:runbook \"rolled back\"'": "1. Rolling Back a Release",
    'citelock search "release rollback" --explain': "1. Rolling Back a Release",
    "curl -s localhost:8088/v1/ask -H 'content-type: application/json' "
    '-d \'{"question": "How long are logs kept?"}\'': "Log files are kept for 35 days",
    "curl -s localhost:8088/v1/ask -H 'content-type: application/json' "
    '-d \'{"question": "How many days of leave do I get per year?"}\'': "Everybody has 28 days of leave a year",
    "curl -s localhost:8088/v1/ask -H 'content-type: application/json' "
    "-H 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' "
    '-d \'{"question": "How long are logs kept?"}\'': "Log files are kept for 35 days",
    "curl -s localhost:8088/v1/ask -H 'content-type: application/json' -d "
    r'"{\"question\": \"How do I roll back a release?\", \"session_id\": \"$SESSION\"}"': "hbl release rollback",
}


def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples", ROOT / "scripts" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules["examples"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


SCRIPT = module()
EXAMPLES = {example.command: example.shown for example in SCRIPT.examples() if example.shown is not None}
OF_DOCUMENTS = {command: shown for command, shown in EXAMPLES.items() if SCRIPT.DOCUMENTS in command}
SHOWN = {command: shown for command, shown in EXAMPLES.items() if command not in OF_DOCUMENTS}
OTHERS = {example.command for example in SCRIPT.examples() if example.shown is None}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CITELOCK_HOME", "CITELOCK_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_each_example_is_shown_or_expected() -> None:
    assert sorted(OTHERS) == sorted(EXPECTED)
    assert len(SHOWN) >= 3
    assert any(command in (ROOT / "README.md").read_text(encoding="utf-8") for command in SHOWN)


@pytest.mark.parametrize("command", SHOWN)
def test_what_is_shown_is_what_is_printed(command: str, published_sample: Path) -> None:
    printed = SCRIPT.printed(command, published_sample / "app.yaml")
    assert SCRIPT.comparable(printed) == SCRIPT.comparable(SHOWN[command] or ""), (
        "run python scripts/examples.py --write"
    )


@pytest.mark.parametrize("command", OF_DOCUMENTS)
def test_what_is_shown_of_documents_is_what_is_printed(command: str, published_documents: Path) -> None:
    config = published_documents / "app.yaml"
    printed = SCRIPT.printed(command, config, config)
    assert SCRIPT.comparable(printed) == SCRIPT.comparable(OF_DOCUMENTS[command] or ""), (
        "run python scripts/examples.py --write"
    )


@pytest.mark.parametrize("command", EXPECTED)
def test_an_example_is_answered_with_what_it_asks_for(command: str, published_sample: Path) -> None:
    printed = SCRIPT.printed(command, published_sample / "app.yaml")
    assert EXPECTED[command] in printed
    assert NOT_FOUND not in printed


def test_what_is_shown_as_not_found_is_what_the_sample_does_not_tell() -> None:
    gold = yaml.safe_load((ROOT / "evals" / "gold" / "sample.yaml").read_text(encoding="utf-8"))["questions"]
    unknown = {entry["question"] for entry in gold if not entry["answerable"]}
    shown = [command for command, output in SHOWN.items() if output.startswith(NOT_FOUND)]
    assert shown
    assert all(any(f'"{question}"' in command for question in unknown) for command in shown)


def test_an_example_that_does_not_hold_is_told(published_sample: Path) -> None:
    changed = SCRIPT.printed(next(iter(SHOWN)), published_sample / "app.yaml").replace("7 days", "8 days")
    assert SCRIPT.comparable(changed) != SCRIPT.comparable(SHOWN[next(iter(SHOWN))] or "")
