"""Questions read as queries over sets."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, strategies
from support.set_tables import Piece, set_tables

from rag_serving.records.sets import SetError, SetQuery
from rag_serving.sets.execute import execute, rule_of
from rag_serving.sets.reading import ChangeQuestion, is_about_set, read_change, read_set

ENG = {"space": "ENG", "space_name": "Engineering"}
JANUARY = datetime(2026, 1, 15, tzinfo=UTC)
TABLES = set_tables(
    {
        "1": ["Decisions and guides."],
        "2": ["| Status | ACCEPTED |\n| Deciders | Rosa Almeida, Jin Park |\n\nOne lock per berth."],
        "3": ["| Status | REJECTED |\n| Deciders | Jin Park |\n\nAsk TideCast."],
        "4": [
            "Owner: Ines Moreau",
            Piece("| Code | HTTP status | Retriable |\n|---|---|---|\n| HBL-1 | 404 | False |\n| HBL-2 | 503 | True |",
                  ("Error codes",)),
            Piece("| Room | Office | Seats |\n|---|---|---|\n| Fjord | Trondheim | 12 |\n| Elv | Trondheim | 8 |\n"
                  "| Kai | Gdańsk | 20 |", ("Meeting rooms",)),
        ],
        "5": [Piece("- Pumps\n- Valves", ("Gauges",)), Piece("- Heat", ("Timers",))],
        "6": ["The exactly-once promise of TideCast. See the storm room."],
        "7": ["The desk in Gdańsk keeps it exactly once."],
        "9": ["Status: OPEN\n\nThe storm-room is in Gdańsk.",
              Piece("| Code | Meaning |\n|---|---|\n| 1 | Wait |", ("Error codes",))],
        "8": [Piece("a", (f"option.{n}",)) for n in range(6)],
    },
    **{
        "1": {"title": "Engineering Handbook", **ENG, "updated_at": datetime(2026, 3, 5, tzinfo=UTC)},
        "2": {"title": "ADR-007: Locks", **ENG, "updated_at": datetime(2025, 4, 10, tzinfo=UTC),
              "labels": ["adr"], "ancestors": ["1"], "links": [{"page_id": "3", "url": None}]},
        "3": {"title": "ADR-011: Tides", **ENG, "labels": ["adr"], "ancestors": ["1"], "author": "Jin Park"},
        "4": {"title": "Gate Reference", **ENG, "labels": ["runbook"], "updated_at": datetime(2026, 2, 1, tzinfo=UTC)},
        "5": {"title": "Available Metrics", "labels": ["runbook", "vessel"], "updated_at": JANUARY},
        "6": {"title": "Operations Weekly 2026-02-09", "labels": ["meeting"], "updated_at": JANUARY},
        "7": {"title": "Operations Weekly 2026-03-02", "labels": ["meeting"], "updated_at": JANUARY},
        "9": {"title": "Gate Reference", "labels": ["adr"], "kind": "comments", "updated_at": JANUARY},
        "8": {"title": "generated/producer_config", "updated_at": JANUARY},
    },
)  # fmt: skip
TODAY = date(2026, 11, 28)


def read(question: str) -> SetQuery | None:
    return read_set(question, TABLES, TODAY)


def members(question: str) -> list[str]:
    """Return the page ids of pages, the first cell of other members."""
    query = read(question)
    assert query is not None, question
    found = execute(query, TABLES, "g").members
    return [member.page_id if query.kind == "pages" else member.cells[0][1] for member in found]


def value(question: str) -> Any:
    query = read(question)
    assert query is not None, question
    return execute(query, TABLES, "g").value


@pytest.mark.parametrize(
    ("question", "pages"),
    [
        ("which runbooks do we have?", "45"),
        ("Welche Runbooks gibt es bei uns?", "45"),
        ("list all ADRs", "23"),
        ("Which pages in ENG have the label adr?", "23"),
        ("what pages are below the Engineering Handbook", "23"),
        ("show me everyting in the OPS space", "5678"),
        ("Which pages mention TideCast?", "36"),
        ("pages that talk about the storm room", "6"),
        ("Which OPS pages mention TideCast? Just the titles, please.", "6"),
        ("where is Gdańsk mentioned", "47"),
        ("which pages mention cast", ""),  # only in a longer word
        ("which pages mention tide", None),  # or tides?
        ("which pages mention the desk", "7"),
        ("which pages mention rooms", None),  # or a room?
        ("which pages mention tidecasts", None),  # or TideCast?
        ("which pages mention unicorns", ""),
        ("which pages mention timers", "5"),  # a heading
        ("Which pages link to ADR-011?", "2"),
        ("whats linking to adr 11", "2"),
        ("Which pages does ADR-007 link to?", "3"),
        ("Which pages were updated in February 2026?", "34"),
        ("What has changed since February?", "134"),
        ("Was hat sich seit Anfang Februar im ENG-Bereich geändert?", "134"),
        ("pages that have not been edited since 2025", "2"),
        ("Can you list all pages about which nobody knows", None),
        ("Could you please show me all runbooks?", "45"),
        ("Which vessel pages are there?", "5"),
        ("Which ENG pages were last changed before 9 February 2026", "24"),
        ("ADRs with status accepted", "2"),
        ("which ADRs are rejected", "3"),
        ("all pages with reference in the title", "4"),
        ("Which page was changed most recently?", "1"),
        ("what is the least recently updated page in ENG", "2"),
        ("the two most recently updated pages", "13"),
        ("show me the meeting notes from February", "6"),
        ("how old are the pages in the Operations space", None),
        ("all pages in the Operations space", "5678"),
        ("list release notes", None),
        ("what is the total of all meeting rooms", None),
    ],
)
def test_a_question_after_pages_is_read(question: str, pages: str | None) -> None:
    if pages is None:
        assert read(question) is None
    else:
        assert sorted(members(question)) == list(pages)


DOUBTFUL = set_tables(
    {
        "1": [Piece("1. Click\n2. Choose", ("Setting log levels",)), "See [it](https://jira.example/x) and the mail."],
        "2": ["[JIRA](https://jira.example/x) and [that](/OPS/Gate+concepts) or by mail."],
        **{str(number): ["The mail."] for number in range(3, 8)},
    },
    **{
        "3": {"title": "Protecting environments"},
        "4": {"title": "Setting up an environment"},
        "5": {"title": "Gate concepts"},
        "2": {"title": "Desk", "links": [{"page_id": None, "url": "/OPS/Gate+concepts"}]},
        **{page: {"title": title} for page, title in (("1", "Logs"), ("6", "Mail"), ("7", "Harbour"))},
    },
)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("which pages mention jira", "page 1 has it in the address of a link alone"),
        ("which pages have environment in the title", "or environments?"),
        ("which pages link to Gate concepts", "an address ends so, and leads to no page"),
        ("which page was changed most recently", "the day of all is that of their copying"),
        ("list the log levels", "steps of setting them"),
    ],
)
def test_a_set_that_may_lack_what_was_meant_is_left(question: str, reason: str) -> None:
    assert read_set(question, DOUBTFUL, TODAY) is None, reason


def test_a_set_of_which_nothing_is_doubtful_is_taken() -> None:
    for near in (
        "pages with setting in the title",
        "which pages link to Protecting environments",
        "pages that mention mail",
    ):
        assert read_set(near, DOUBTFUL, TODAY), near


SERVICES = "| Service | Critical | Owner |\n|---|---|---|\n| Berth | Only at night | Rosa |\n| Gate | No | Jin |"
UNLIKE = set_tables(
    {
        "1": [Piece(SERVICES, ("Services",)), Piece("- Pick a colour.\n- Send it to us.", ("Custom colours",)),
              Piece("1. Fetch it\n2. Start it", ("To install a release",))],
        "2": [Piece(f"{SERVICES}\n\n| Alarm | Level |\n|---|---|\n| Fire | 1 |", ("Sirens",))],
        "3": ["- Home\n- Guides", Piece("- Red", ("Light",)), Piece("- Blue", ("Dark",))],
        "4": [Piece("- We write short sentences.", ("First",)), Piece("- Red", ("Second",))],
        "5": [Piece("- Wait\n- Call", ("Slow lock",)), Piece("- We take what is best for all who come.", ("Choices",)),
              Piece("- Knock: to be heard\n- Enter", ("Ways",)),
              Piece("| Icon | State |\n|---|---|\n| red | shut |", ("Each lock",)),
              Piece("| Name | Field |\n|---|---|\n| key | int |", ("Entry",)),
              Piece("| Room | Seats |\n|---|---|\n| Fjord | 12 |\n| Elv | 8 |", ("Rooms",))],
    },
    **{"1": {"title": "Gates"}, "2": {"title": "Alarms"}, "3": {"title": "Colour guides"}, "4": {"title": "Styles"},
       "5": {"title": "Locks of doors"}},
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("which services are there", 2),
        ("list all services of Rosa", 1),
        ("which services are critical", None),  # `Only at night`
        ("list all services critical", None),
        ("which services have no owner", None),
        ("how many customers are there", None),  # `Custom colours`
        ("how many releases were installed", None),  # steps
        ("which sirens are there", None),  # two tables
        ("how many colour guides are there", None),  # where to go, and colours
        ("list all styles", None),  # a sentence
        ("how many slow locks are there", None),  # one, and what to do
        ("list all choices", None),
        ("list all ways", 2),
        ("how many locks are there", None),  # in the title, and `Each lock` has states
        ("list all entry fields", None),  # `Fields`, and not the rows of `Entry`
        ("who wrote most pages", None),
        ("how many rooms have seats", None),
        ("how many seats do the rooms have", 2),
    ],
)
def test_what_only_resembles_a_name_is_no_set(question: str, count: int | None) -> None:
    query = read_set(question, UNLIKE, TODAY)
    found = None if query is None else len(execute(query, UNLIKE, "g").members)
    assert found == count


def test_what_hangs_under_a_longer_heading_is_something_else() -> None:
    tables = set_tables(
        {
            "1": [
                Piece("- Onboarding\n- Releasing", ("Committers and their duties",)),
                Piece("- Ann\n- Bo", ("Suppliers",)),
                Piece("- Page 1\n- Bo", ("Releases",)),
                Piece("| Command | Does |\n|---|---|\n| make | All of it |", ("Running the tests",)),
            ]
        }
    )
    query = read_set("how many suppliers are there", tables)
    assert query is not None
    assert execute(query, tables, "g").value == "2"
    assert read_set("how many committers are there", tables) is None
    assert read_set("list all releases", tables) is None  # pages to go to
    assert read_set("list all commands", tables) is None  # other tables may have some


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("How many ADRs are there?", "2"),
        ("Wie viele Seiten gibt es im OPS Bereich?", "4"),
        ("When was ADR-007 last updated?", "2025-04-10"),
        ("status of ADR 11", "REJECTED"),
        ("Who are the deciders of ADR-007?", "Rosa Almeida, Jin Park"),
        ("Who owns the Gate Reference?", "Ines Moreau"),
        ("who last edited ADR-011", "Jin Park"),
        ("How many error codes are there?", "2"),
        ("How many seats in all meeting rooms in Trondheim?", "20"),
        ("how many metrics are listed on the available metrics page", "3"),
        ("number of config options for the producer", "6"),
    ],
)
def test_a_value_is_read(question: str, shown: str) -> None:
    assert value(question) == shown


@pytest.mark.parametrize(
    ("question", "cells"),
    [
        ("Which error codes are retriable?", ["HBL-2"]),
        ("Which error codes have the HTTP status 404?", ["HBL-1"]),
        ("which meeting rooms have more than 10 seats", ["Fjord", "Kai"]),
        ("Which meeting rooms are in Trondheim?", ["Fjord", "Elv"]),
        ("which meeting room has the most seats", ["Kai"]),
    ],
)
def test_a_question_after_rows_is_read(question: str, cells: list[str]) -> None:
    assert members(question) == cells


def test_headings_of_a_page_without_text_above_them_are_called_by_its_title() -> None:
    query = read("number of config options for the producer")
    assert query is not None
    assert rule_of(query, TABLES) == "headings of *generated/producer_config*"


def test_pages_of_each_space_are_counted() -> None:
    query = read("Who writes more docs, ENG or OPS? number of pages each")
    assert query is not None
    assert [(group.name, group.count) for group in execute(query, TABLES, "g").groups] == [("ENG", 4), ("OPS", 4)]


@pytest.mark.parametrize(
    "question",
    [
        "Which page in our wiki is read the most?",  # views are no field
        "Which is the oldest page, and who created it?",  # nor are creations
        "Who owns the handbook?",  # a property that the page has not
        "who last edited ADR-007",  # an author that the source does not tell
        "what pages have the label deprecated",
        "which runbooks apply to contractors",  # a word that nothing accounts for
        "pages below the Gate Reference",  # nothing lies there
        "Which pages mention both TideCast and Gdańsk?",
        "how many pages mention exactly once",  # with a hyphen it is on another page, too
        "which meeting rooms have more than 10",  # of which column?
        "What is the longest page?",  # by words and by characters it is not the same
        "which pages link to Operations Weekly",  # two pages
        "how many error codes are not retriable",
        "how many vessels are there",  # a label of what pages are about
        "list all runbooks and ADRs",  # either, and not both
        "who has the runbooks",
        "Are all runbooks in OPS?",
        "what are ADRs",  # asks what they are
        "how many offices have meeting rooms",  # not how many rooms
        "How does the gate open?",
        "what changed in the gate reference compared to last year",
        "x" * 400,
        "",
    ],
)
def test_what_is_not_wholly_accounted_for_goes_the_ordinary_way(question: str) -> None:
    assert read(question) is None


def test_what_a_reader_may_not_see_names_nothing() -> None:
    few = set_tables({"5": ["Nothing here."]}, **{"5": {"updated_at": JANUARY, "title": "Available Metrics"}})
    for question in ("list all ADRs", "Which pages link to ADR-011?", "Which error codes are retriable?"):
        assert read(question) is not None
        assert read_set(question, few, TODAY) is None


@pytest.mark.parametrize(
    ("question", "change"),
    [
        ("What changed on the Gate Reference page since January 2026?", ChangeQuestion(("4",), None, "2026-01")),
        ("what has been changed in OPS since 2026-02-09", ChangeQuestion((), "OPS", "2026-02-09")),
        ("what changed in OPS before 2026", None),
        ("Which pages mention TideCast?", None),
        ("how does it work", None),
    ],
)
def test_a_question_after_changes_is_read(question: str, change: ChangeQuestion | None) -> None:
    assert read_change(question, TABLES, TODAY) == change


_WORDS = (
    "which what how many list all pages page the of in and or not updated since before february 2026 last mention link",
    "to below with label status adr 11 007 runbooks gate reference ops eng tidecast gdańsk error codes retriable rooms",
    "seats more than 10 most trondheim meeting owner deciders rosa jin title newest longest each who config options",
    "when available metrics 404 does is from for three top changed",
)


@given(strategies.lists(strategies.sampled_from(" ".join(_WORDS).split()), max_size=14).map(" ".join))
def test_any_words_are_read_or_left(question: str) -> None:
    query = read(question)
    read_change(question, TABLES, TODAY)
    if query is not None:
        assert SetQuery.of(query.payload()) == query
        with suppress(SetError):
            execute(query, TABLES, "g")


def test_words_that_can_be_read_in_very_many_ways_take_no_time() -> None:
    for words in ("in ", "pages in ", "the last ", "which that ", "a ", "mention mention "):
        assert read(words * (290 // len(words))) is None


def test_most_questions_are_told_by_their_words() -> None:
    assert is_about_set("Which pages mention TideCast?")
    assert not is_about_set("can I bring my dog to the office")
