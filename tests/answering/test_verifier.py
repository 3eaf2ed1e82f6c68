from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passages import lock_of

from rag_serving.answering.citations import citations_of, fragment_url
from rag_serving.answering.quotes import find_quote
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.passages import Lock

RESTART = "You must not restart the broker while partitions are under-replicated. Wait 1.5 hours after an upgrade."
DISK = "Each broker keeps at most 15 GB of logs on disk.\nOlder segments — “closed” ones — are deleted ﬁrst…"
CONFIG = "Set `log.retention.ms` to 5000 unless compaction is enabled on Linux hosts of the cluster."
LOCK = lock_of([RESTART, DISK, CONFIG])


def judge(quote: str, index: int = 1, lock: Lock = LOCK, text: str | None = None) -> Verdict:
    return verify(Draft((Claim(quote if text is None else text, index, quote),), "test"), lock)[0]


@pytest.mark.parametrize(
    ("quote", "index"),
    [
        ("must not restart the broker while partitions", 1),
        ("at most 15 GB of logs on disk. Older segments", 2),
        ('Older segments - "closed" ones - are deleted first...', 2),
        ("“Wait 1.5\u00a0hours after an upgrade.”", 1),
        ("...compaction is enabled on Linux hosts...", 3),
    ],
)
def test_a_verbatim_quote_is_exact_whatever_its_typography(quote: str, index: int) -> None:
    verdict = judge(quote, index, text=f"Unless {quote}")
    assert (verdict.outcome, verdict.index) == ("exact", index)


def test_offsets_lead_back_to_the_original_characters() -> None:
    verdict = judge('"closed" ones - are deleted first', 2)
    assert DISK[verdict.start : verdict.end] == "closed” ones — are deleted ﬁrst"


@pytest.mark.parametrize(
    "quote",
    [
        "must not restart the brokers while partitions are under-replicated",
        "You must not restart the Broker while partitions are under-replicated",
    ],
)
def test_a_small_slip_is_a_near_match_and_the_original_is_shown(quote: str) -> None:
    verdict = judge(quote)
    assert verdict.outcome == "fuzzy"
    assert "restart the broker while partitions" in RESTART[verdict.start : verdict.end]


@pytest.mark.parametrize(
    ("quote", "index"),
    [
        ("You must restart the broker while partitions are under-replicated", 1),
        ("You must now restart the broker while partitions are under-replicated", 1),
        ("Each broker keeps at most 16 GB of logs on disk", 2),
        ("Each broker keeps at most 15 MB of logs on disk", 2),
        ("Each broker keeps at least 15 GB of logs on disk", 2),
        ("Wait 15 hours after an upgrade.", 1),
        ("5 hours after an upgrade", 1),
        ("Set `log.retention.ms` to 5000 unless compaction is disabled on Linux hosts", 3),
        ("Brokers are restarted by the operator every night at midnight", 1),
    ],
)
def test_a_changed_number_or_a_turned_sentence_is_dropped(quote: str, index: int) -> None:
    assert judge(quote, index).outcome == "dropped"


@pytest.mark.parametrize("text", ["You may restart the broker at any time.", "Do not restart the broker."])
def test_a_quote_that_begins_behind_the_negation_is_shown_with_it(text: str) -> None:
    verdict = judge("restart the broker while partitions", text=text)
    assert (verdict.support, verdict.told) == ("quoted", f"{RESTART.partition('. ')[0]}.")


def test_a_quote_that_breaks_off_before_the_negation_is_shown_with_it() -> None:
    limit = "Before every release a request for the storage team must not exceed 250 KB."
    verdict = judge(
        "a request for the storage team must", lock=lock_of([limit]), text="The storage team must be asked."
    )
    assert (verdict.support, verdict.told) == ("quoted", limit)


def test_a_quote_behind_a_negation_is_shown_with_it_however_long_its_sentence_is() -> None:
    limit = f"Before every release a request must never exceed 250 KB {'on any day of the long working week ' * 15}."
    verdict = judge("exceed 250 KB", lock=lock_of([limit]), text="It may exceed 250 KB.")
    assert (verdict.support, verdict.told) == ("quoted", limit)


@pytest.mark.parametrize("index", [0, -1, 2, 4, 99])
def test_a_quote_of_another_passage_is_swapped_to_it(index: int) -> None:
    verdict = judge("compaction is enabled on Linux hosts", index, text="It is so unless compaction is enabled.")
    assert (verdict.outcome, verdict.index) == ("swapped", 3)
    assert CONFIG[verdict.start : verdict.end] == "compaction is enabled on Linux hosts"


@pytest.mark.parametrize(
    ("quote", "reason"),
    [
        ("", "no quote"),
        (" “…” ", "too short"),
        ("the", "too short"),
        ("entirely made up words that nobody ever wrote", "does not stand in passage 1"),
    ],
)
def test_what_is_dropped_says_why(quote: str, reason: str) -> None:
    verdict = judge(quote)
    assert verdict.outcome == "dropped"
    assert reason in verdict.reason


def test_an_index_outside_the_lock_without_a_home_is_dropped() -> None:
    assert judge("words that stand in no passage at all", 7).reason == "the quote does not stand in any passage"


def test_no_more_citations_than_allowed() -> None:
    quotes = ["Each broker keeps", "keeps at most 15 GB", "15 GB of logs", "of logs on disk", "logs on disk"]
    claims = tuple(Claim("Each broker keeps at most 15 GB of logs on disk.", 2, quote) for quote in quotes)
    verdicts = verify(Draft(claims, "test"), LOCK, rules=VerificationRules(max_citations=3))
    assert [verdict.outcome for verdict in verdicts] == ["exact"] * 3 + ["dropped"] * 2


def test_a_place_that_is_cited_again_is_no_further_citation() -> None:
    sentences = ("Each broker keeps at most 15 GB of logs on disk.", "Older segments are deleted first.", "Brokers.")
    claims = [Claim(text, 2, "at most 15 GB of logs") for text in (sentences[0], sentences[0], *sentences[1:])]
    verdicts = verify(Draft(tuple(claims), "test"), LOCK, rules=VerificationRules(max_citations=1))
    assert [verdict.outcome for verdict in verdicts] == ["exact", "dropped", "dropped", "dropped"]
    assert [v.reason for v in verdicts if v.outcome == "dropped"] == [
        "the same citation again",
        *["the same words of the page again"] * 2,
    ]
    assert len(citations_of(verdicts, LOCK)) == 1


def test_without_required_quotes_the_claim_itself_must_stand_in_the_passage() -> None:
    stands, not_there = Claim("Wait 1.5 hours after an upgrade.", 1, ""), Claim("Wait for the moon to rise.", 1, " ")
    outcomes = [
        v.outcome
        for v in verify(Draft((stands, not_there), "test"), LOCK, rules=VerificationRules(require_quotes=False))
    ]
    assert outcomes == ["exact", "dropped"]
    assert verify(Draft((stands,), "test"), LOCK)[0].reason == "no quote"


LONG = (
    "The operators of the night shift wait until the controller of the second cluster reports no offline replicas and "
    "then start the maintenance window, which must not exceed 90 minutes, by hand."
)


@pytest.mark.parametrize(
    ("sentence", "held"),
    [
        ("The maintenance window must not exceed 90 minutes.", "must not exceed 90 minutes"),
        ("Offline replicas of the second cluster are waited for.", "second cluster reports no offline replicas"),
    ],
)
def test_of_a_quote_that_is_too_long_the_words_that_say_the_claim_are_cited(sentence: str, held: str) -> None:
    lock = lock_of([CONFIG, LONG])
    (verdict,) = verify(Draft((Claim(sentence, 2, LONG),), "test"), lock, rules=VerificationRules(quote_max_words=12))
    cited = LONG[verdict.start : verdict.end]
    assert verdict.outcome == "exact"
    assert len(cited.split()) == 12
    assert held in cited
    assert verdict.reason.startswith("verbatim, 12 of 32 quoted words are cited")
    (citation,) = citations_of([verdict], lock, 12)
    assert citation.quote == cited


def test_a_quote_that_is_too_long_must_stand_as_a_whole() -> None:
    claim = Claim("The window must not exceed 90 minutes.", 1, LONG.replace("second", "third"))
    (verdict,) = verify(Draft((claim,), "test"), lock_of([LONG]), rules=VerificationRules(quote_max_words=12))
    assert verdict.outcome == "dropped"


def test_a_sentence_that_is_its_own_quote_is_told_whole_and_cited_in_part() -> None:
    claim = Claim(LONG, 1, "")
    question = "When does the maintenance window start?"
    (verdict,) = verify(
        Draft((claim,), "test"),
        lock_of([LONG]),
        question=question,
        rules=VerificationRules(require_quotes=False, quote_max_words=12),
    )
    cited = LONG[verdict.start : verdict.end]
    assert (verdict.told, len(cited.split())) == (LONG, 12)
    assert "maintenance window" in cited


def test_signs_between_words_count_as_words_of_a_quote() -> None:
    row = "| a | b | c | d | e | f | g | h of the long line |"
    claim = Claim("The long line has an h.", 1, row)
    (verdict,) = verify(Draft((claim,), "test"), lock_of([row]), rules=VerificationRules(quote_max_words=5))
    assert row[verdict.start : verdict.end].split() == ["h", "of", "the", "long", "line"]


def test_a_quote_longer_than_the_passage_is_no_match() -> None:
    assert find_quote("Stop. " + "Invented words follow here. " * 3, "Stop.") is None


# Promise 1 under attack: claims are made by mutating real passages and by inventing.

ALPHABET = st.sampled_from(list("abcdeort XY059.,-–’“”…ﬁ\u00a0\n%|`*不é"))
VOCABULARY = "broker must not 5 15 GB restart — “logs” never on disk, 1.5 hours ﬁrst… unsupported can’t 不"
WORDS = st.sampled_from(VOCABULARY.split(" "))
PASSAGES = st.lists(
    st.one_of(
        st.lists(WORDS, max_size=40).map(" ".join),
        st.text(ALPHABET, max_size=80),
        st.sampled_from([RESTART, DISK, CONFIG]),
    ),
    max_size=4,
)
MUTATIONS = st.sampled_from(
    [
        ("not ", ""),
        ("5", "6"),
        ("“", '"'),
        ("—", "-"),
        (" ", "\u00a0"),
        (" ", "\n "),
        ("ﬁ", "fi"),
        ("…", "..."),
        ("must", "may"),
        ("GB", "MB"),
        (".", ""),
        ("r", "R"),
        ("’", "'"),
        ("1", ""),
        ("un", ""),
        ("on ", "on the "),
    ]
)


@st.composite
def attacks(draw: st.DrawFn) -> tuple[Lock, Draft]:
    lock = lock_of(draw(PASSAGES))
    claims = []
    for _ in range(draw(st.integers(1, 5))):
        index = draw(st.integers(-2, 7))
        source = draw(st.sampled_from([c.chunk.text for c in lock.passages])) if lock.passages else ""
        start = draw(st.integers(0, max(0, len(source) - 1)))
        quote = source[start : start + draw(st.integers(0, 90))]
        for old, new in draw(st.lists(MUTATIONS, max_size=3)):
            quote = quote.replace(old, new, draw(st.sampled_from([1, -1])))
        quote = draw(
            st.sampled_from([quote, quote + draw(st.text(ALPHABET, max_size=10)), draw(st.text(ALPHABET, max_size=40))])
        )
        claims.append(Claim(draw(st.text(ALPHABET, max_size=30)), index, quote))
    return lock, Draft(tuple(claims), "adversary")


@given(attacks(), st.booleans(), st.integers(3, 50))
def test_promise_1_every_citation_stands_verbatim_in_a_locked_passage(
    attack: tuple[Lock, Draft], required: bool, most: int
) -> None:
    lock, draft = attack
    verdicts = verify(draft, lock, rules=VerificationRules(require_quotes=required, quote_max_words=most))
    citations = citations_of(verdicts, lock, most)
    assert len(citations) <= 3
    assert sorted({citation.index for citation in citations}) == [*range(1, len({c.passage for c in citations}) + 1)]
    for citation in citations:
        assert len(citation.quote.split()) <= most
        passage = lock.passage(citation.passage)
        assert passage is not None
        assert citation.chunk_id == passage.chunk.chunk_id
        assert citation.quote == passage.chunk.text[citation.start : citation.end] != ""
        url, _, anchor = citation.url.partition("#")
        assert url
        assert anchor
        assert citation.fragment_url.startswith(citation.url + ":~:text=") or citation.fragment_url == citation.url


@given(st.sampled_from([RESTART, DISK, CONFIG]), st.data())
def test_what_was_changed_in_figures_or_negations_is_never_accepted(text: str, data: st.DataObject) -> None:
    old, new = data.draw(
        st.sampled_from([("15", "25"), ("1.5", "15"), ("5000", "500"), ("must not", "must"), ("unless", "if")])
    )
    changed = text.replace(old, new)
    if changed != text:
        place = find_quote(changed, text)
        assert place is None


@given(st.sampled_from([RESTART, DISK, CONFIG]), st.integers(0, 60), st.integers(1, 60))
def test_any_run_of_whole_words_is_exact(text: str, start: int, length: int) -> None:
    pieces = text.split()
    quote = " ".join(pieces[start % len(pieces) :][:length])
    place = find_quote(quote, text)
    assert place is not None
    assert place.how == "exact"


def test_a_fragment_encodes_what_parts_its_terms() -> None:
    url = fragment_url("https://wiki.example/x#Restart", "non-root, “5 %” & **bold** [link](https://a.b)")
    assert url == "https://wiki.example/x#Restart:~:text=non%2Droot%2C%20%E2%80%9C5%20%25%E2%80%9D%20%26%20bold%20link"
