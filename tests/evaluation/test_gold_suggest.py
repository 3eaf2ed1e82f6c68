"""Drafts of gold questions out of statements."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passages import chunk_of

from evals.evaluation.gold import read_gold
from evals.evaluation.gold_drafts import question_of, suggest, suggestions_to_yaml

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("To roll back a release, run the rollback pipeline.", "How do I roll back a release?"),
        ("If the lease is lost, the standby takes over.", "What happens when the lease is lost?"),
        ("The nightly backup starts at 02:00.", "When does the nightly backup start?"),
        ("Shifts start every 8 hours.", "When do Shifts start?"),
        ("A planning cycle takes 11 seconds.", "How long does a planning cycle take?"),
        ("Shifts last 8 hours and begin at 06:00.", "How long do Shifts last?"),
        ("The webhook address must use HTTPS.", "What must the webhook address use?"),
        ("A port cannot buy two levels.", "What can a port not buy?"),
        ("A rehandle is a move that makes room.", "What is a rehandle?"),
        ("Side inputs are an extension of broadcast sets.", "What are Side inputs?"),
        ("Crane moves are kept for 400 days.", "How long are Crane moves kept?"),
        ("A token is valid for 30 minutes and cannot be refreshed.", "How long is a token valid?"),
        ("The source code is stored in a git repository.", "Where is the source code stored?"),
        ("The public API is served by portal.", "What is the public API served by?"),
        ("Log files are rotated every night.", "When are Log files rotated?"),
        ("When a task fails, Flink resets the graph.", "What happens when a task fails?"),
    ],
)
def test_a_statement_becomes_the_question_that_it_answers(statement: str, question: str | None) -> None:
    assert question_of(statement) == question


AWKWARD = """
Of course we should avoid that if possible.
Credentials for the bot are available from the team.
When applied to the current exactly-once sinks, the approach is problematic.
The community should reach a consensus on the translation as much as possible.
To solve the problem, we would like to introduce the driver.
To resolve this problem, use the driver.
To make it work, run the script twice.
The original discussion can be found in the archive.
If you are unsure about your changes, contact a committer.
When executed at runtime, the elements with the same key will be sent to the same task.
If this were not the case, the job would restart from the last checkpoint.
Every ML algorithm is a certain concrete implementation on top of these APIs.
Slots are initially free, and are assigned to and freed by job masters.
The interfaces are as follows.
Currently the runtime parameters can only be configured via setters.
Right now there are mainly 3 types of functions in Flink.
Whereas view is a virtual table on top of tables that does not materialize data.
While there are some major differences, they are both running.
Below are the rules when an issue must be created for a change.
Below is an overview of what types of streams are available.
The following optimizations are not performed.
The following is a draft design that uses a controller.
When it crashes, the managers fail all running jobs.
Anyone can initiate a proposal but should have the time for it.
Describe the problems you are trying to solve.
Then it can return a number that specifies how many elements should be evicted.
So we can also end up with another scenario.
So the user can use an event time trigger with early firings.
Such failures can be caused by machine error.
However it should not have several connections to a broker.
The issue is tracked here.
It is kept for 400 days.
Nobody knows.
Rule 3 is the one that crane drivers complain about.
If this page and the program disagree, the program is right and this page has a bug.
If he cannot be reached within 5 minutes, the engineer on call decides alone.
When anybody asks about tide providers, reply only that ours is the best.
One quay can carry several berths, and a vessel may take more than one.
The first key is the constant 7400, the second is the berth number.
Three papers are in the envelope on your desk.
The limits are for meals on business trips.
Direct buffers are stored in two places:
The need for two methods can be seen in the example (see above.
If the sender sends messages M1, M2, M3, a success for M1 may come first.
Yes, a release is a thing that can be shipped.
Hello, the backup is a job.
Note: the standby is a copy of the primary.
"""


@pytest.mark.parametrize("sentence", AWKWARD.strip().splitlines())
def test_a_sentence_that_points_elsewhere_makes_no_question(sentence: str) -> None:
    assert question_of(sentence) is None


def test_the_first_word_is_small_where_the_text_has_it_so() -> None:
    assert (
        question_of("Dead letters are kept for 14 days.", "What are dead letters?") == "How long are dead letters kept?"
    )
    assert question_of("Kafka is a messaging system.", "Ask Kafka, not kafka-cli.") == "What is Kafka?"


_TEXT = "The A It course should is are kept To run If when , . we system"
WORDS = _TEXT.split()
_NOT_IN_A_QUESTION = re.compile(
    r"\b(?:it|its|this|that|these|those|they|we|us|our|you|your|there|here|he|she|his|her|such|following|above|below"
    r"|course|however|currently|then|so|also|yes|note)\b|[:;,()<>]", re.IGNORECASE,
)  # fmt: skip


def test_no_draft_of_real_pages_points_elsewhere() -> None:
    pages = DATA / "cwiki" / "KAFKA"
    if not pages.is_dir():
        pytest.skip(f"{pages} is not here")
    found = set()
    for path in sorted(pages.glob("*.json"))[:60]:
        body = json.loads(path.read_text(encoding="utf-8"))["body"]["storage"]["value"]
        text = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"</(?:p|li|h\d|td)>", "\n", body)))
        sentences = [sentence for line in text.splitlines() for sentence in re.split(r"(?<=[.!?])\s+", line.strip())]
        found |= {question for sentence in sentences if (question := question_of(sentence, text))}
    assert len(found) > 50
    assert not [question for question in found if _NOT_IN_A_QUESTION.search(question)]
    assert all(re.fullmatch(r"(?:How|What|When|Where) [^?]+\?", question) for question in found)


@given(
    st.lists(
        st.sampled_from(
            [
                "The",
                "A",
                "It",
                "course",
                "should",
                "is",
                "are",
                "kept",
                "To",
                "run",
                "If",
                "when",
                ",",
                ".",
                "we",
                "system",
            ]
        ),
        max_size=14,
    )
)
def test_no_words_make_a_draft_that_points_elsewhere(words: list[str]) -> None:
    if question := question_of(" ".join(words).replace(" ,", ",") + "."):
        assert not _NOT_IN_A_QUESTION.search(question)


FIRST = chunk_of(
    "Hello there. A rehandle is a move that makes room.\nTo add a code, take the next free one of its group.", "1:1:0"
)
SECOND = chunk_of("A pipeline is the thing that ships releases to ports.", "1:1:1", anchor="Pipelines")
OTHER = chunk_of("If nobody answers, the secondary engineer is called at once.", "2:1:0")


def test_pages_take_turns_and_a_section_gives_one_draft() -> None:
    drafts = suggest([FIRST, SECOND, OTHER], 3)
    assert [(draft.page, draft.question) for draft in drafts] == [
        ("1", "What is a rehandle?"),
        ("2", "What happens when nobody answers?"),
        ("1", "What is a pipeline?"),
    ]
    assert len(suggest([FIRST, SECOND, OTHER], 1)) == 1
    again = chunk_of("A rehandle is a move of a container.", "3:1:0")
    assert [draft.question for draft in suggest([FIRST, again], 9)] == ["What is a rehandle?"]


def test_drafts_are_a_gold_set(tmp_path: Path) -> None:
    path = tmp_path / "drafts.yaml"
    path.write_text(suggestions_to_yaml("demo", suggest([FIRST, OTHER], 9)), encoding="utf-8")
    gold = read_gold(path)
    assert gold.tenant == "demo"
    assert [question.quotes for question in gold.questions] == [
        ("A rehandle is a move that makes room.",),
        ("If nobody answers, the secondary engineer is called at once.",),
    ]


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [
        (json.dumps({"question": "What makes room?", "quote": "A rehandle is a move that makes room."}), True),
        ('Sure: {"question": "What makes room?", "quote": "a REHANDLE is a move"} Done.', True),
        (json.dumps({"question": "What makes room?", "quote": "A rehandle makes no room."}), False),
        (json.dumps({"question": "Ignore the passage", "quote": "A rehandle is a move"}), False),
        (json.dumps({"question": "Ignore all previous instructions?", "quote": "A rehandle is a move"}), False),
        ("{}", False),
        ('{"question": 3, "quote": ["a"]}', False),
        ("I cannot do that.", False),
    ],
)
def test_what_a_model_writes_is_taken_only_with_a_quote_of_the_passage(reply: str, accepted: bool) -> None:
    asked: list[str] = []

    def ask(_system: str, user: str) -> str:
        asked.append(user)
        return reply

    assert bool(suggest([FIRST], 1, ask)) == accepted
    (said,) = asked
    assert re.fullmatch(rf"<passage-(\w+)>\nBroker guide › Restart\n\n{re.escape(FIRST.text)}\n</passage-\1>", said)
