from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.text.analyzer import STOP_WORDS, analyze, identifiers, stems, versions

WORD = st.from_regex(r"[a-z]{2,9}", fullmatch=True).filter(lambda word: word not in STOP_WORDS)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The running pumps", ["run", "pump"]),
        ("getUserName", ["getusernam", "get", "user", "name"]),
        ("HTTPServerConfig", ["httpserverconfig", "http", "server", "config"]),
        ("KIPs and APIs", ["kip", "api"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("max.poll.records", ["max.poll.records", "max", "poll", "record"]),
        ("--bootstrap-server", ["--bootstrap-server", "bootstrap-server", "bootstrapserv", "bootstrap", "server"]),
        ("ERR-4012", ["err-4012", "err4012", "err", "4012"]),
        ("v1.2.3", ["v1.2.3", "1.2.3", "1.2"]),
        ("log4j2 sha256", ["log4j2", "log", "sha256", "sha", "256"]),
        ("C++ and C#", ["c++", "c", "c#", "c"]),
        ("Kafka's isn’t", ["kafka", "isn"]),
        ("café Über", ["cafe", "uber"]),
        ("IT is not it", ["it", "not"]),
        ("港口 ship", ["港", "口", "港口", "ship"]),
        ("42 3.14 2024-01-15", ["42", "3.14", "2024-01-15", "20240115", "2024", "01", "15"]),
        ("", []),
        ("-- . / ' — …", []),
    ],
)
def test_text_becomes_terms(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


def test_every_level_of_a_path_is_found_whole_and_in_parts() -> None:
    terms = analyze("see https://wiki.example.org/display/KAFKA/KIP-500.")
    assert {"wiki.example.org", "wiki", "display", "kip-500", "kip500", "kip", "500"} <= set(terms)
    assert {"org.apache.kafkaproducer", "kafkaproduc", "kafka", "produc"} <= set(analyze("org.apache.KafkaProducer"))


def test_an_identifier_is_found_however_it_is_written() -> None:
    dotted, camel, snake, plain = (
        set(analyze(name)) for name in ("max.poll.records", "maxPollRecords", "max_poll_records", "max poll records")
    )
    assert plain <= dotted & camel & snake
    assert set(analyze("javascript")) <= set(analyze("JavaScript"))
    assert set(analyze("rollback")) <= set(analyze("roll-back"))
    assert set(analyze("KIP500")) <= set(analyze("KIP-500"))


@given(st.lists(WORD, min_size=2, max_size=5), st.sampled_from([".", "_", "-", "/", "::", "camel", "Pascal"]))
def test_the_parts_of_an_identifier_always_find_it(parts: list[str], style: str) -> None:
    joined = "".join(part.capitalize() for part in parts)
    name = {"camel": joined[0].lower() + joined[1:], "Pascal": joined}.get(style, style.join(parts))
    found = set(analyze(f"Set `{name}` first."))
    for part in parts:
        assert set(analyze(part)) <= found
    assert set(analyze(name)) <= found


@given(st.text(max_size=300))
def test_any_text_gives_clean_terms_and_always_the_same(text: str) -> None:
    terms = analyze(text)
    assert terms == analyze(text)
    assert all(term and term == term.strip() and len(term) <= 80 for term in terms)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20))
def test_letters_of_any_script_are_never_lost(word: str) -> None:
    assert analyze(f"x{word}")


def test_terms_do_not_depend_on_the_hash_seed() -> None:
    text = "The HTTPServer at /var/log/kafka-3.5.1 said ERR_4012, 港口 closed"
    script = f"import json; from rag_serving.text.analyzer import analyze; print(json.dumps(analyze({text!r})))"
    run = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == analyze(text)


def test_hostile_text_takes_time_in_proportion_to_its_length() -> None:
    start = time.perf_counter()
    for text in ("a." * 200_000, "x" * 1_000_000, "-" * 1_000_000, "A" * 500_000, "a_" * 300_000, "'" * 500_000):
        analyze(text)
    assert time.perf_counter() - start < 60  # hours, were it the square of the length


@pytest.mark.parametrize(
    ("text", "names", "numbers"),
    [
        ("Set max.poll.records and DB_POOL_SIZE.", ["max.poll.records", "DB_POOL_SIZE"], []),
        ("ERR-4012, ERR-4012 or KIP-500?", ["ERR-4012", "KIP-500"], []),
        ("maxPollRecords in HeadOperatorCoordinator", ["maxPollRecords", "HeadOperatorCoordinator"], []),
        ("from v3 and 3.9.1 to v4.0.0", [], ["v3", "3.9.1", "v4.0.0"]),
        ("GitHub, iPhone, JavaScript: 0.5 of e.g. 24-hour pages", [], []),
    ],
)
def test_names_and_versions_are_told_from_words_by_their_shape(text: str, names: list[str], numbers: list[str]) -> None:
    assert (identifiers(text), versions(text)) == (names, numbers)


def test_stems_are_those_of_the_analyzer() -> None:
    words = ["retention", "replicated", "partitions"]
    assert stems(words) == [term for word in words for term in analyze(word)]
