"""A model's sentence is verified only where it is the page's own words; readers see the page's words in any case.

Every set of false sentences that was ever written for this is asked: by hand, by rule, and by edits of true sentences.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.false_sentences import FACTS, false_sentences
from support.passages import lock_of

from rag_serving.answering.citations import answer_text, shown_claims
from rag_serving.answering.verification import is_own, verify
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Lock
from rag_serving.text.units import units

DATA = Path(__file__).parent / "data"
LIES = Path(__file__).parents[3] / "shared" / "data" / "lies"


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def quote_for(sentence: str, text: str) -> str:
    """Return the unit of a passage that shares most words with a sentence."""
    said = set(re.findall(r"\w+", sentence.lower()))
    found = [unit.of(text).strip() for unit in units(text)]
    return max(found, key=lambda unit: len(said & set(re.findall(r"\w+", unit.lower()))))


def written_lies() -> Iterator[tuple[list[str], str, str, str]]:
    """Yield the passages, a true quote of the first, a false sentence and a question."""
    passages = {row["name"]: str(row["text"]) for row in rows(DATA / "passages.jsonl")}
    for row in rows(DATA / "false_beside_true.jsonl"):
        texts = [passages[name] for name in row["passages"]]  # type: ignore[attr-defined]
        yield texts, str(row["quote"]), str(row["sentence"]), str(row["question"])
    for name in ("blind_sentences.jsonl", "blind_second_false.jsonl", "fresh_sentences.jsonl"):
        for row in rows(DATA / name):
            for lie in row["false"]:  # type: ignore[attr-defined]
                text, sentence = str(row["text"]), str(lie["sentence"])
                yield [text], quote_for(sentence, text), sentence, f"{sentence.rstrip('.')}?"


def assert_only_words_of_pages(lock: Lock, claims: tuple[Claim, ...], question: str) -> None:
    """Assert that no sentence of a draft is verified, and that every word shown is the pages'."""
    verdicts = verify(Draft(claims, "test"), lock, question)
    assert all(verdict.support != "verbatim" for verdict in verdicts), claims
    for verdict in verdicts:
        if verdict.outcome != "dropped":
            text = lock.passages[(verdict.index or 0) - 1].chunk.text
            for line in re.split(r"\n|; |: ", verdict.told):
                assert line.strip(" |") in text, (line, text)
    shown = shown_claims(verdicts, lock, shows_unverified=True)
    assert {claim.verified for claim in shown if claim.text in {each.text for each in claims}} <= {"model"}
    assert all(line not in answer_text(verdicts, lock) for line in (claim.text for claim in claims))


def test_no_false_sentence_written_by_hand_is_verified() -> None:
    found = list(written_lies())
    assert len(found) >= 900
    for texts, quote, sentence, question in found:
        assert_only_words_of_pages(lock_of(texts), (Claim(sentence, 1, quote),), question)


def test_no_false_sentence_made_by_rule_is_verified() -> None:
    lies = false_sentences()
    assert len(lies) >= 2_000
    for _, fact, others, lie in lies[::5]:
        lock = lock_of([fact.text, *(other.text for other in others)])
        claims = tuple(Claim(lie, index, quoted.quote) for index, quoted in enumerate((fact, *others), start=1))
        assert_only_words_of_pages(lock, claims, f"What about {fact.patient}?")


def test_no_lie_of_strangers_is_verified() -> None:
    if not LIES.is_dir():
        pytest.skip(f"{LIES} is not there")
    for row in rows(LIES / "lies.jsonl"):
        text, sentence, question = str(row["passage"]), str(row["sentence"]), str(row["question"])
        for quote in {quote_for(sentence, text), *(unit.of(text) for unit in units(text))}:
            verdicts = verify(Draft((Claim(sentence, 1, quote),), "test"), lock_of([text]), question)
            assert all(verdict.support != "verbatim" for verdict in verdicts), sentence


def edited(words: list[str], dice: random.Random) -> list[str]:
    """Return the words with one of five edits: swapped, dropped, inserted, moved, joined."""
    words = list(words)
    at, other = dice.randrange(len(words)), dice.randrange(len(words))
    match dice.choice(["swap", "drop", "insert", "move", "join"]):
        case "swap":
            words[at], words[other] = words[other], words[at]
        case "drop":
            del words[at]
        case "insert":
            words.insert(at, dice.choice(["not", "never", "only", "always", "3", "or", "the", "no", words[other]]))
        case "move":
            words.insert(other, words.pop(at))
        case "join":
            words[at] = f"{words[at]}{words[other].lower()}"
    return words


def test_no_edit_of_a_unit_is_its_own_words() -> None:
    dice = random.Random(20)
    texts = [str(row["text"]) for row in rows(DATA / "passages.jsonl")]
    found = [unit.of(text) for text in texts for unit in units(text) if unit.kind in ("sentence", "list")]
    edits = 0
    while edits < 10_000:
        unit = dice.choice(found)
        words = unit.split()
        said = " ".join(edited(words, dice))
        tokens = [re.sub(r"\W+$|^\W+", "", word).lower() for word in (said.split(), words)[0]]
        if [token for token in tokens if token] == [
            re.sub(r"\W+$|^\W+", "", w).lower() for w in words if w.strip("-–|")
        ]:
            continue  # two equal words exchanged
        edits += 1
        assert not is_own(said, unit) or said.lower() in unit.lower(), (said, unit)


@pytest.mark.parametrize(
    "sentence",
    [
        "Backups are kept for 33 days.",
        "backups are kept for 33 days",
        "According to the handbook, backups are kept for 33 days.",
        "The documentation says that backups are kept for **33 days**.",
        "However, backups are kept for 33 days!",
        "- Backups are kept for `33` days [1].",
        "“Backups are kept for 33 days.”",
    ],
)
def test_a_sentence_in_other_typography_is_the_pages_own(sentence: str) -> None:
    (verdict,) = verify(
        Draft((Claim(sentence, 1, "kept for 33 days"),), "test"), lock_of(["Backups are kept for 33 days."])
    )
    assert (verdict.support, verdict.told) == ("verbatim", "Backups are kept for 33 days.")


@pytest.mark.parametrize(
    "sentence",
    [
        "Yes, backups are kept for 33 days.",
        "No: backups are kept for 33 days.",
        "Only backups are kept for 33 days.",
        "Backups are kept for 3.3 days.",
        "Backups are kept for 33 Days or so.",
        "Otherwise backups are kept for 33 days.",
        "Backups are kept for [33 days](https://example.org/33).",
        "If asked, backups are kept for 33 days.",
    ],
)
def test_a_sentence_with_a_word_more_is_not(sentence: str) -> None:
    lock = lock_of(["Backups are kept for 33 days."])
    (verdict,) = verify(Draft((Claim(sentence, 1, "kept for 33 days"),), "test"), lock)
    assert (verdict.support, verdict.told) == ("quoted", "Backups are kept for 33 days.")


@pytest.mark.parametrize(
    ("text", "sentence", "shown"),
    [
        ("Never do this:\n\n- Share the key.\n- Skip the drill.", "Share the key.", "Never do this: Share the key."),
        ("| Plan | Price |\n|---|---|\n| Basic | 10 EUR |\n", "Basic: 10 EUR", "Plan: Basic; Price: 10 EUR"),
        ("The key expires. It lasts 90 days.", "It lasts 90 days.", "The key expires. It lasts 90 days."),
        (
            "Guests may park here. However, the yard is closed on Sunday. Ask at the gate.",
            "Guests may park here.",
            "Guests may park here. However, the yard is closed on Sunday.",
        ),
        ("Deleting is final:\n\n1. Stop it now.\n2. Wipe it too.", "Wipe it too.", "Deleting is final: Wipe it too."),
    ],
)
def test_a_unit_is_shown_with_what_it_holds_under(text: str, sentence: str, shown: str) -> None:
    (verdict,) = verify(Draft((Claim(sentence, 1, quote_for(sentence, text)),), "test"), lock_of([text]))
    assert (verdict.told, verdict.support) == (shown, "quoted")


def test_the_true_sentences_are_verified() -> None:
    for fact in FACTS:
        (verdict,) = verify(Draft((Claim(fact.text, 1, fact.quote),), "test"), lock_of([fact.text]))
        assert (verdict.support, verdict.told) == ("verbatim", fact.text)
