"""Names of people are taken out by a real, tiny model; a model that cannot be asked lets nothing through."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from support.tiny_names import NAME_PIECES, WORDS, save_names_model
from support.wiki import configuration

from citelock_governance.audit.command import exported
from citelock_governance.audit.ledger import Ledger
from citelock_governance.audit.verification import Verifier
from citelock_governance.privacy.names import NameFinder, _widened, examine, name_finder
from rag_serving.access.principals import Principal
from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.hooks import Event
from rag_serving.privacy import LineFormatter, NamesError, PersonalData, Redactor, redact_logs
from rag_serving.records.answers import SearchResults
from rag_serving.telemetry.events import Trace
from rag_serving.telemetry.tables import QUESTIONS, open_engine
from rag_serving.telemetry.telemetry import QuestionTelemetry

pytestmark = pytest.mark.xdist_group("torch")

POSITIONS = 26  # windows of 24 tokens, of which 22 are of the text


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_names_model(tmp_path_factory.mktemp("names") / "model", positions=POSITIONS)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    yield
    redact_logs(None)


def reader(folder: Path) -> Redactor:
    return Redactor(("email", "phone", "names"), (), folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ask Ann Smith about the release.", "Ask [name] about the release."),
        ("Ann-Smith wrote to Jose.", "[name] wrote to [name]."),
        ("ANN's report", "[name]'s report"),
        ("Ask Annabel about Berlin", "Ask Annabel about Berlin"),
        ("Mail Ann ann@example.com", "Mail [name] [email]"),
        ("Mail ann.smith@example.com", "Mail [email]"),
        ("", ""),
        (" \n", " \n"),
    ],
)
def test_names_are_replaced_and_nothing_else(model: Path, text: str, told: str) -> None:
    assert reader(model).redacted(text) == told
    assert reader(model).redacted(told) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Müller wrote to René", "[name] wrote to [name]"),
        ("Mu\u0308ller wrote to Rene\u0301 .", "[name] wrote to [name] ."),
        ("😀👩‍👩‍👧 ask Ann 🏳️‍🌈", "😀👩‍👩‍👧 ask [name] 🏳️‍🌈"),
        ("问王明 about", "问[name] about"),
        ("half \ud83d ask Ann \ude00", "half \ud83d ask [name] \ude00"),
        ("\ud83d\ude00 ask Ann", "\ud83d\ude00 ask [name]"),
        ("ask\u00a0Ann\u2028Smith\0", "ask\u00a0[name]\0"),
    ],
    ids=ascii,
)
def test_places_are_those_of_the_text_in_any_script(model: Path, text: str, told: str) -> None:
    assert reader(model).redacted(text) == told


def test_a_word_of_which_one_piece_is_a_name_is_taken_out_whole(tmp_path: Path) -> None:
    only_first = save_names_model(tmp_path, names=["mu"])
    assert reader(only_first).redacted("mail Müller .") == "mail [name] ."


@pytest.mark.parametrize("place", [0, 1, 15, 16, 17, 20, 21, 22, 23, 24, 37, 60, 500, 999])
def test_a_name_is_found_wherever_it_stands_in_a_long_text(model: Path, place: int) -> None:
    words = ["release"] * 1_000
    words[place] = "Müller"
    assert reader(model).redacted(" ".join(words)).split() == ["[name]" if word == "Müller" else word for word in words]


@given(
    st.lists(st.sampled_from([*WORDS[:-1], "😀", "é"]), max_size=80), st.integers(0, 80), st.sampled_from(["Ann", "王"])
)
def test_no_name_is_left_whatever_stands_around_it(model: Path, words: list[str], place: int, name: str) -> None:
    told = reader(model).redacted(" ".join([*words[:place], name, *words[place:]]))
    assert name not in told
    assert [word for word in told.split() if word != "[name]"] == words


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (("O", "PER"), "PER"),
        (("O", "B-LOC", "B-PER", "I-PER"), "B-PER"),
        (("O", "B-PERSON", "I-PERSON"), "I-PERSON"),
        (("O", "B-per", "E-per", "S-per"), "S-per"),
        (("O", "U-PERS", "L-PERS"), "L-PERS"),
        (("O", "I-GIVENNAME", "I-SURNAME", "I-EMAIL"), "I-SURNAME"),
        (("O", "first_name", "last_name"), "last_name"),
    ],
)
def test_labels_of_persons_are_known_in_many_schemes(tmp_path: Path, labels: tuple[str, ...], label: str) -> None:
    folder = save_names_model(tmp_path, labels=labels, label_of_names=label)
    assert reader(folder).redacted("ask Ann Smith") == "ask [name]"


def test_other_entities_stay(tmp_path: Path) -> None:
    folder = save_names_model(tmp_path, names=["berlin", "ann"], label_of_names="I-LOC")
    assert reader(folder).redacted("ask Ann about Berlin") == "ask Ann about Berlin"


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_names_without_a_model_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^configuration: privacy: names in redact take a model; set names_model"):
        parse_config({"privacy": {"redact": ["names"]}})


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (shutil.rmtree, "is no folder of a model: it has no config.json"),
        (lambda folder: (folder / "config.json").write_text("[]"), "is no folder of a model"),
        (lambda folder: change_config(folder, architectures=["BertModel"]), r"has no token classifier \(BertModel\)"),
        (
            lambda folder: change_config(folder, id2label={"0": "LABEL_0", "1": "B-LOC"}),
            "has no label of persons, such as PER; it has LABEL_0, B-LOC",
        ),
        (lambda folder: (folder / "model.safetensors").unlink(), "save the model again in the format safetensors"),
    ],
)
def test_a_folder_that_is_no_model_of_names_is_an_error(
    model: Path, tmp_path: Path, damage: Callable[[Path], Any], fault: str
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    damage(folder)
    with pytest.raises(ConfigError, match=fault) as raised:
        parse_config({"privacy": {"redact": ["names"], "names_model": str(folder)}})
    assert "\n" not in str(raised.value)


def test_missing_packages_are_an_error_that_names_the_extra(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    with pytest.raises(ConfigError, match=r"torch, which is not installed; pip install 'citelock\[names\]'"):
        parse_config({"privacy": {"redact": ["names"], "names_model": str(model)}})


def test_reading_the_configuration_opens_no_model(model: Path) -> None:
    section = {"redact": ["names"], "names_model": str(model)}
    code = (
        "import sys; from rag_serving.config.loading import parse_config; "
        f"parse_config({{'privacy': {section!r}}}); print({{'torch', 'transformers'}} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def with_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _spoil(weights: dict[str, Any]) -> None:
    weights["classifier.bias"] += float("nan")


def _behead(weights: dict[str, Any]) -> None:
    del weights["classifier.weight"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 99), "cannot be opened"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "cannot be opened"),
        (lambda folder: change_config(folder, num_attention_heads=3), "cannot be opened"),
        (lambda folder: with_weights(folder, _spoil), "its figures are no numbers"),
        (lambda folder: with_weights(folder, _behead), "lack classifier.weight"),
    ],
)
def test_a_broken_model_lets_no_text_through(
    model: Path, tmp_path: Path, damage: Callable[[Path], Any], reason: str
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    damage(folder)
    redactor = reader(folder)
    for text in ("ask Ann", "ask nobody"):
        told = redactor.redacted(text)
        assert told.startswith("[withheld: ")
        assert reason in told
        assert "ask" not in told
        assert redactor.find(text) == [PersonalData("names", 0, len(text))]
    assert redactor.redacted("") == ""


def test_a_model_that_fails_later_lets_no_text_through_until_it_answers(model: Path) -> None:
    """Weights that are lost while it is used, and come back."""
    finder = NameFinder(model)
    assert finder.spans("ask Ann") == [(4, 7)]
    bias = finder._opened()._model.classifier.bias
    before = bias.detach().clone()
    bias.data += float("inf")
    with pytest.raises(NamesError, match="its figures are no numbers"):
        finder.spans("mail Ann")
    bias.data.copy_(before)
    assert finder.spans("mail Ann") == [(5, 8)]


def test_what_the_libraries_log_while_a_model_is_opened_is_withheld(model: Path, tmp_path: Path) -> None:
    """Transformers warns of weights that it does not know; the line is redacted by the model that is being opened."""
    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    with_weights(folder, lambda weights: weights.update(unknown_weight=weights["classifier.bias"].clone()))
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(LineFormatter("%(message)s").format(record))

    handler, logger = Lines(), logging.getLogger("transformers")
    redact_logs(reader(folder))
    logger.addHandler(handler)
    try:
        assert reader(folder).redacted("ask Ann") == "ask [name]"
    finally:
        logger.removeHandler(handler)
    assert lines
    assert all("[withheld: the model of names is being opened]" in line for line in lines)


def test_one_model_is_opened_for_all_redactors_of_a_folder(model: Path) -> None:
    assert name_finder(model) is name_finder(Path(str(model)))


def test_many_texts_are_remembered_up_to_a_limit(model: Path) -> None:
    finder = NameFinder(model)
    assert [finder.spans(f"ask Ann {'release ' * (number % 40)}{number}")[0] for number in range(300)] == [(4, 7)] * 300
    assert 0 < len(finder._recent) <= 256


def test_texts_of_several_threads_are_read_at_the_same_time(model: Path) -> None:
    finder = NameFinder(model)
    texts = [f"{'release ' * number}ask Ann" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(finder.spans, texts * 3))
    assert found == [[(len(text) - 3, len(text))] for text in texts] * 3


def test_who_would_wait_too_long_for_the_model_lets_no_text_through(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread with the log's lock waits for one that needs it."""
    monkeypatch.setattr("citelock_governance.privacy.names._LONGEST_OPENING_S", 0.05)
    finder = NameFinder(model)
    with finder._opening, pytest.raises(NamesError, match="is being opened"):
        finder.spans("ask Ann")
    assert finder.spans("ask Ann") == [(4, 7)]


def test_logs_telemetry_and_audit_keep_no_name(model: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "privacy": {"redact": ["names"], "names_model": str(model)},
        "telemetry": {"store_questions": True},
        "audit": {"mode": "required", "store_queries": True},
    }
    config = configuration(tmp_path, **settings)
    record = logging.LogRecord("x", logging.WARNING, "", 0, "no answer for %s", ("Ann Smith",), None)
    assert LineFormatter("%(message)s").format(record) == "no answer for [name]"

    telemetry = QuestionTelemetry(config, "acme")
    telemetry.searched(Principal("acme", "bob", frozenset()), "ask Ann Smith", SearchResults((), "g1"), Trace())
    assert telemetry.flush(20)
    telemetry.close()
    engine = open_engine(None, tmp_path / "serving.db")
    with engine.connect() as connection:
        assert connection.execute(select(QUESTIONS.c.question)).scalars().all() == ["ask [name]"]
    engine.dispose()

    ledger = Ledger(tmp_path, None, "acme", config.audit, config.privacy.redactor().redacted)
    ledger.append([Event("question", user="bob", query="ask Ann Smith")])
    ledger.close()
    told = "".join(exported(Verifier(tmp_path, None), tmp_path, "acme", is_opened=True))
    assert "ask [name]" in told
    assert "Ann" not in told


def test_a_long_word_of_many_pieces_is_read_once() -> None:
    characters = 200_000
    assert list(_widened("a" * characters, [(at, at + 1) for at in range(characters)])) == [(0, characters)]


def test_the_doctor_opens_the_model(model: Path, tmp_path: Path) -> None:
    assert named_by_the_doctor(tmp_path, model) == [("names", "ok")]
    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    with_weights(folder, _spoil)
    assert named_by_the_doctor(tmp_path, folder) == [("names", "fail")]
    assert named_by_the_doctor(tmp_path, None) == []


def named_by_the_doctor(home: Path, folder: Path | None) -> list[tuple[str, str]]:
    privacy = {"redact": ["names"], "names_model": str(folder)} if folder else {}
    found = examine(configuration(home, privacy=privacy))
    return [(finding.name, finding.state) for finding in found if finding.name == "names"]


def test_the_pieces_of_the_tiny_model_are_no_other_words() -> None:
    assert not set(NAME_PIECES) & set(WORDS)
