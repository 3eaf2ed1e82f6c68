"""Personal data is found where it stands, near misses stay, and time is bounded."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from support.growth import steepness
from support.marked_texts import MarkedText, compare, marked_texts, seconds_of
from support.wiki import configuration

from rag_serving import privacy
from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.privacy import LineFormatter, Redactor, redact_logs

EUROPE = Redactor(regions=("DE", "FR", "GB", "US", "NL", "ES"))


@pytest.mark.parametrize("text", marked_texts(), ids=lambda text: text.text[:40])
def test_what_is_marked_is_found_and_nothing_else(text: MarkedText) -> None:
    missed, wrong = compare(text)
    assert (set(missed), set(wrong)) == (set(), set())


def test_a_redacted_text_says_what_was_taken_out_and_stays_as_it_is() -> None:
    told = EUROPE.redacted(
        "Mail ann@example.com, card 4111 1111 1111 1111, IBAN DE89370400440532013000, +49 30 901820."
    )
    assert told == "Mail [email], card [card], IBAN [iban], [phone]."
    assert EUROPE.redacted(told) == told


def test_only_the_configured_kinds_and_regions_are_found() -> None:
    text = "ann@example.com 030 901820 +49 30 901820 536-90-4399"
    assert Redactor(("email",)).redacted(text) == "[email] 030 901820 +49 30 901820 536-90-4399"
    assert Redactor().redacted(text) == "[email] 030 901820 [phone] 536-90-4399"
    assert Redactor(regions=("DE",)).redacted(text) == "[email] [phone] [phone] 536-90-4399"
    assert Redactor(regions=("US",)).redacted(text).endswith("[national_id]")
    assert Redactor(()).redacted(text) == text


@pytest.fixture
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "loaded", lambda _: {})


@pytest.mark.usefixtures("without_plugins")
def test_without_the_plugin_more_is_taken_for_a_telephone_number_and_nothing_is_left() -> None:
    text = "ann@example.com +49 30 901820, 0049 30 901820 (+1 202 4561111), 4111 1111 1111 1111, +999 1234567"
    assert Redactor().redacted(text) == "[email] [phone], [phone] [phone]), [card], [phone]"


@pytest.mark.parametrize("text", marked_texts(), ids=lambda text: text.text[:40])
def test_what_the_plugin_finds_in_no_country_is_found_without_it(
    text: MarkedText, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Redactor().find(text.text)
    monkeypatch.setattr(privacy, "loaded", lambda _: {})
    assert set(found) <= set(Redactor().find(text.text))


@pytest.mark.usefixtures("without_plugins")
def test_names_that_nothing_can_look_for_withhold_the_text() -> None:
    told = Redactor(("names",), names_model=Path("models/ner")).redacted("Ann Miller is away.")
    assert told == "[withheld: names needs citelock[governance]: pip install 'citelock[governance]']"


@pytest.mark.parametrize(
    "pump", ["1", "1 ", "a@", "@", '"@', "%40", "(1", "AB12 ", "a@b.", "00 1", "+1"], ids=lambda pump: repr(pump)
)
def test_time_grows_with_the_text_and_not_faster(pump: str) -> None:
    def make(size: int) -> str:
        return (pump * (size // len(pump) + 1))[:size]

    assert steepness(lambda text: EUROPE.redacted(text), make) is None


def test_a_question_takes_less_than_a_millisecond() -> None:
    question = "How do I reset the password of ann@example.com, and whom do I call: +49 30 901820 or 030 901820?"
    assert seconds_of(question, 50) < 0.001


def test_odd_characters_break_nothing() -> None:
    for text in (
        "",
        "\ud800@\ud800.com 1\0 +\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669",
        "@" * 50,
        "+" * 50,
        "٤١١١ ١١١١ ١١١١ ١١١١",
    ):
        assert isinstance(EUROPE.redacted(text), str)


def test_log_lines_hold_no_personal_data() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "no mail to %s\nfrom ann", ("ann@example.com",), None)
    try:
        raise ValueError("bob@example.com is not known")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    try:
        redact_logs(Redactor())
        line = LineFormatter("citelock: %(message)s").format(record)
    finally:
        redact_logs(None)
    assert "example.com" not in line
    assert "no mail to [email]" in line
    assert "ValueError: [email] is not known" in line


def test_reading_the_configuration_sets_what_logs_leave_out(tmp_path: object) -> None:
    try:
        configuration(tmp_path, privacy={"redact": []})  # type: ignore[arg-type]
        record = logging.LogRecord("x", logging.WARNING, "", 0, "ann@example.com", (), None)
        assert LineFormatter("%(message)s").format(record) == "ann@example.com"
    finally:
        redact_logs(None)


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({"redact": ["names"]}, "names in redact take a model"),
        ({"redact": ["mail"]}, "'mail' is none of email, iban, card, national_id, phone, names"),
        ({"regions": ["XX"]}, "'XX' is no country"),
    ],
)
def test_what_cannot_be_redacted_is_an_error(section: dict[str, list[str]], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_config({"privacy": section})


def test_many_candidates_in_a_row_are_bounded() -> None:
    begun = time.perf_counter()
    EUROPE.redacted("030 901820 " * 2_000)
    assert time.perf_counter() - begun < 5
