"""What a model wrote, in the forms that models write."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_serving.answering.writing.parsing import parse
from rag_serving.records.claims import Claim


def read(reply: str) -> list[tuple[str, int, str]]:
    return [(claim.text, claim.index, claim.quote) for claim in parse(reply).claims]


@pytest.mark.parametrize(
    "quote", ['"{}"', "“{}”", "„{}“", "„{}”", "« {} »", "»{}«", "「{}」", "‘{}’", "'{}'", "> {}\n", "```\n{}\n```\n"]
)
@pytest.mark.parametrize(
    "citation", ["[2]", "[ 2 ]", "[^2]", "【2】", "【2†source】", "[Passage 2]", "[source 2]", "[[2]]"]
)
def test_quotes_and_citations_are_read_in_every_form(quote: str, citation: str) -> None:
    said = quote.format("keeps logs for 168 hours")
    expected = [("Brokers keep logs for a week.", 2, "keeps logs for 168 hours")]
    assert read(f"Brokers keep logs for a week. {citation}\n\n{said}" if said[0] in ">`" else
                f"Brokers keep logs for a week. {said} {citation}") == expected  # fmt: skip


@pytest.mark.parametrize(
    ("citation", "indexes"),
    [("[1][3]", [1, 3]), ("[1] [3]", [1, 3]), ("[1, 3]", [1, 3]), ("[1-3]", [1, 2, 3]), ("[1; 99]", [1, 99]),
     ("(1)", [1]), ("[1](https://evil.example/x)", [1]), ("[1–2]", [1, 2])],
)  # fmt: skip
def test_several_passages_may_be_cited_at_once(citation: str, indexes: list[int]) -> None:
    claims = parse(f'Logs stay. "keeps logs for 168 hours" {citation}').claims
    assert [claim.index for claim in claims] == indexes
    assert {claim.quote for claim in claims} == {"keeps logs for 168 hours"}
    assert {claim.text for claim in claims} == {"Logs stay."}


@pytest.mark.parametrize(
    "reply",
    [
        'Stop it. "stop the broker" [1] Wait then. "wait five minutes" [2]',
        'Stop it "stop the broker" [1]. Wait then "wait five minutes" [2].',
        '- Stop it. "stop the broker" [1]\n- Wait then. "wait five minutes" [2]',
        '1. Stop it. "stop the broker" [1]\n2. Wait then. "wait five minutes" [2]',
        '[1] Stop it. "stop the broker"\n[2] Wait then. "wait five minutes"',
        '| Stop it. "stop the broker" [1] |\n| Wait then. "wait five minutes" [2] |',
        "Stop it.\n> stop the broker [1]\n\nWait then.\n> wait five minutes [2]",
    ],
)
def test_each_sentence_has_its_own_evidence_in_any_layout(reply: str) -> None:
    claims = parse(reply).claims
    assert [(claim.index, claim.quote) for claim in claims] == [(1, "stop the broker"), (2, "wait five minutes")]
    assert [claim.text.split()[0] for claim in claims] == ["Stop", "Wait"]


def test_a_sentence_without_quotation_marks_has_no_quote() -> None:
    assert read("The broker keeps logs [1].") == [("The broker keeps logs.", 1, "")]


def test_a_sentence_that_cites_nothing_is_a_claim_on_nothing() -> None:
    assert read('I think so. "keeps logs" [1] Believe me!') == [
        ("I think so.", 1, "keeps logs"),
        ("Believe me!", 0, ""),
    ]


def test_what_follows_a_citation_is_a_sentence_of_its_own() -> None:
    claims = parse('Logs stay "keeps logs for 168 hours" [1] The moon is made of cheese').claims
    assert [(claim.text, claim.index) for claim in claims][1] == ("The moon is made of cheese", 0)


def test_a_full_stop_behind_a_citation_ends_the_sentence_whatever_follows() -> None:
    claims = parse('Everybody knows it (see [1]). older ones go first "older ones go" [2].').claims
    assert [(claim.index, claim.quote) for claim in claims] == [(1, ""), (2, "older ones go")]


def test_a_long_quote_without_a_number_is_looked_for_everywhere() -> None:
    assert read('It says "keeps logs for 168 hours".')[0][1:] == (0, "keeps logs for 168 hours")


def test_everything_a_sentence_quotes_must_stand() -> None:
    (claim,) = parse('Run `rm -rf /` and "restart it now" [1].').claims
    assert claim == Claim('Run `rm -rf /` and "restart it now".', 1, "restart it now", ("rm -rf /",))
    first, second = parse('Both "one two three" [1] and "four five six" [2].').claims
    assert (first.others, second.others) == (("four five six",), ("one two three",))


def test_a_quote_that_is_not_closed_goes_to_the_end_of_its_line() -> None:
    assert read('They say "restart it now [1]')[0][2] == "restart it now"


def test_code_that_a_colon_announces_is_told_and_cited() -> None:
    assert read("Run this [3]:\n```bash\nkafka-stop.sh --now\n```") == [
        ("Run this:\n```\nkafka-stop.sh --now\n```", 3, "kafka-stop.sh --now")
    ]


@pytest.mark.parametrize(
    "reply", ["Use args[0] and log_dirs[1] here.", "It is a[b.c[2]] of x.", "Call f(1) (2) times."]
)
def test_indexes_of_code_are_no_citations(reply: str) -> None:
    assert read(reply) == [(reply, 0, "")]


@pytest.mark.parametrize(
    "reply",
    ["Not found in docs.", "not found in the docs", "**Not found in docs.**", "I could not find it in the docs.",
     "The passages do not mention it.", "The documentation doesn't say.", "Das ist nicht in den Dokumenten gefunden."],
)  # fmt: skip
def test_a_model_may_decline_in_its_own_words(reply: str) -> None:
    assert parse(reply).declined
    assert not parse("Logs are kept for a week.").declined


def test_thoughts_are_no_answers() -> None:
    reply = '<think>Passage 1 is a lie [1]</think>Logs stay. "keeps logs" [2]'
    assert read(reply) == [("Logs stay.", 2, "keeps logs")]
    assert read(reply.removeprefix("<think>")) == [("Logs stay.", 2, "keeps logs")]
    channels = '<|channel|>analysis<|message|>hm<|channel|>final<|message|>Logs stay. "keeps logs" [2]'
    assert read(channels) == [("Logs stay.", 2, "keeps logs")]


def test_html_is_taken_out_and_counted() -> None:
    parsed = parse('<p>Logs <b>stay</b>.</p><script>steal()</script> "keeps logs" [1] &lt;img src=x onerror=y&gt;')
    assert (parsed.claims[0].text, parsed.removed) == ("Logs stay.", 6)
    assert parse('Set List<String> of <groupId>. "keeps logs" [1]').claims[0].text == "Set List<String> of <groupId>."


def test_the_unfinished_end_of_a_reply_that_was_cut_is_left_out() -> None:
    reply = 'Logs stay. "keeps logs" [1] And now the bro'
    assert len(parse(reply).claims) == 2
    assert [claim.text for claim in parse(reply, cut=True).claims] == ["Logs stay."]
    assert len(parse('Logs stay. "keeps logs" [1]', cut=True).claims) == 1


@example(">`1`")
@given(st.text(st.sampled_from(list("ab .\n\"'`[]()<>„“«»【】>-|*_1239#:?!&;\U000f0000\U000f8000")), max_size=200))
def test_any_text_can_be_read(reply: str) -> None:
    for claim in parse(reply).claims:
        assert not any(ord(character) >= 0xE000 and ord(character) < 0xF900 for character in claim.text + claim.quote)
        assert not any(ord(character) >= 0xF0000 for character in claim.text + claim.quote)


@pytest.mark.parametrize(
    "piece", ["[1] ", '"', "„a", "<", "<a ", "`", "``` ", "> ", "[", "(", "[1, ", "'a b ", "x dot ", "<!--", "&lt;"]
)
def test_a_hostile_reply_is_read_in_time(piece: str) -> None:
    start = time.process_time()
    parse(piece * (6_000 // len(piece)))
    assert time.process_time() - start < 2
