"""What is taken out of texts that are kept: credentials, and nothing else."""

from __future__ import annotations

import time
from base64 import b64encode

import pytest

from rag_assets.resources import redact_error
from rag_serving.config.loading import parse_config
from rag_serving.escaping import redaction
from rag_serving.escaping.redaction import RedactedError, redacted, redacted_values

KEY = "sk-4f9a/11+xyz"
PASSWORD = "w1ki-p@ssword"


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration whose secrets are known from now on; other tests do not have them."""
    for name in ("_variables", "_passwords"):
        monkeypatch.setattr(redaction, name, frozenset())
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setenv("TOKENS", f'{{"{KEY}-of-ann": {{"tenant": "acme"}}, "short": {{}}}}')
    monkeypatch.setenv("USER_NAME", "somebody-else")
    generation = {"provider": "openai", "model": "m", "base_url": "http://bot:w1ki-p%40ssword@127.0.0.1/v1"}
    auth = {"kind": "basic", "user_env": "USER_NAME", "token_env": "ABSENT"}
    live = {"kind": "confluence", "tenant": "acme", "base_url": "https://x", "space": "X", "readers": "everyone"}
    parse_config({
        "tenants": {"acme": {}},
        "generation": {**generation, "api_key_env": "SOME_KEY"},
        "serving": {"tokens_env": "TOKENS"},
        "sources": {"live": {**live, "auth": auth}},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("GET https://h/x?access_token=abc&page=2 failed", "GET https://h/x?access_token=***&page=2 failed"),
        ("/x?q=1&api_key=a%20b;sig=c#top", "/x?q=1&api_key=***;sig=***#top"),
        ("'http://h/?X-Amz-Signature=0a'", "'http://h/?X-Amz-Signature=***'"),
        ("https://h/?key=abc then", "https://h/?key=*** then"),
        ("https://h/rest?spaceKey=ENG&os_authType=basic&start=25", None),
        ("a key=value pair, token=7, and 3 < 4; b=2", None),
    ],
)
def test_a_query_loses_its_tokens_and_nothing_else(text: str, kept: str | None) -> None:
    assert redacted(text) == (kept or text)


@pytest.mark.usefixtures("hidden")
def test_the_user_of_a_database_is_no_secret_and_that_of_a_web_address_is() -> None:
    generation = {"provider": "openai", "model": "m", "base_url": "https://t0ken-alone@models.example/v1"}
    index = {"kind": "postgres", "url": "postgresql://citelock@db/citelock"}
    telemetry = {"url": "postgresql://citelock:its-p4ssword@db/citelock"}
    parse_config({"tenants": {"acme": {}}, "index": index, "telemetry": telemetry, "generation": generation})
    told = "run `citelock build` on postgresql-host with its-p4ssword and t0ken-alone"
    assert redacted(told) == "run `citelock build` on postgresql-host with *** and ***"


@pytest.mark.usefixtures("hidden")
def test_the_values_of_secret_variables_are_hidden_wherever_they_stand() -> None:
    assert redacted(f"Incorrect API key provided: {KEY}.") == "Incorrect API key provided: ***."
    assert redacted(f"token {KEY}-of-ann") == "token ***"
    assert redacted(f"password {PASSWORD}, as sent w1ki-p%40ssword") == "password ***, as sent ***"
    for content in (f"bot:{PASSWORD}", f"{KEY}", f"xx{KEY}"):
        assert redacted(f"header Basic {b64encode(content.encode()).decode()};") == "header Basic ***;"
    untouched = "somebody-else has a short token; 4f9a1c77d05e4b8896aa10c47d2be6f3 is an id, aGVsbG8gd29ybGQh is not"
    assert redacted(untouched) == untouched


@pytest.mark.usefixtures("hidden")
def test_an_error_hides_what_it_quotes_and_what_it_came_from() -> None:
    assert str(RedactedError(f"HTTP 401: {KEY}")) == "HTTP 401: ***"
    away, cause = RuntimeError("http://u:p@h is away"), ValueError(f"no answer of {KEY}", 7)
    away.__cause__, cause.__context__ = cause, away
    redact_error(away)
    assert str(away) == "http://***@h is away"
    assert cause.args == ("no answer of ***", 7)


@pytest.mark.usefixtures("hidden")
def test_a_json_value_is_redacted_to_its_leaves() -> None:
    assert redacted_values({"a": [KEY, 1, None], "b": ("x?token=1",)}) == {"a": ["***", 1, None], "b": ["x?token=***"]}


@pytest.mark.usefixtures("hidden")
def test_long_texts_take_time_in_proportion() -> None:
    for text in ("A" * 500_000, "?token=" * 70_000, "?" + "a" * 500_000, "?a=" * 150_000, "AAAA-" * 100_000):
        start = time.process_time()
        redacted(text)
        assert time.process_time() - start < 5
