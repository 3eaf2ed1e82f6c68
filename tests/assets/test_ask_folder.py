"""`citelock ask --docs FOLDER`: from nothing to cited answers, with what the base installs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from support.api_client import ADDRESS, LOCAL
from support.command_line import run
from support.waiting import status_of, wait_until

from rag_assets.build import folder as folder_index
from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.cli.options import config_of, open_pipeline
from rag_serving.config.loading import load_config
from rag_serving.documents.links import FileLinks

ROOT = Path(__file__).parents[2]
# Whatever the extras install cannot be imported.
BASE = """
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {
            "atlassian", "chromadb", "dagster", "datasketch", "matplotlib", "ollama", "pandas", "pypdfium2", "pyromark",
            "scipy", "torch",
        }:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
sys.meta_path.insert(0, Lacking())
from rag_serving.cli.main import main
main()
"""
QUESTION = "How many cranes has the harbour of Bergen number 11?"
TOWNS = ["Aarhus", "Bergen", "Cork", "Delft", "Essen", "Faro", "Genoa", "Hull", "Izmir", "Jena"]


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CITELOCK_")}
    command, environment = [sys.executable, "-c", BASE, *map(str, arguments)], {**kept, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def asked(folder: Path, question: str, *options: str) -> tuple[dict[str, object], str]:
    """Return the answer to a question about a folder, and what was said on standard error."""
    code, out, err = run("ask", "--json", "--docs", str(folder), question, *options)
    assert code == 0, err
    answer: dict[str, object] = json.loads(out)
    return answer, err


def harbour(town: str, number: int) -> str:
    return f"The harbour of {town} number {number} has {number + 40} cranes. Ships wait there for a pilot."


def write_folder(folder: Path, pages: int = 30) -> Path:
    """Write pages of Markdown and HTML, one that is no document, and what is never read."""
    folder.mkdir()
    for number in range(pages):
        town = TOWNS[number % len(TOWNS)]
        text = harbour(town, number)
        if number % 3:
            (folder / f"{town}-{number}.md").write_text(f"# {town} {number}\n\n## Cranes\n\n{text}\n", "utf-8")
        else:
            page = f"<html><body><h1>{town} {number}</h1><p>{text}</p></body></html>"
            (folder / f"{town}-{number}.html").write_text(page, "utf-8")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 no archive")
    for name in (".git", "node_modules"):
        (folder / name).mkdir()
        (folder / name / "lighthouse.md").write_text("# Lighthouse\n\nNobody reads of the lighthouse.\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], str]:
    """A folder after its first question, which two processes ask, the answer with what the base installs, and what both
    said meanwhile."""
    folder = write_folder(tmp_path_factory.mktemp("docs") / "harbours")
    with started("ask", "--json", "--docs", folder, QUESTION) as process:
        wait_until(lambda: (folder / ".citelock" / "app.yaml").is_file())
        answer, told = asked(folder, QUESTION)
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert json.loads(out)["citations"] == answer["citations"]
    return folder, json.loads(out), err + told


@pytest.fixture
def copied(indexed: tuple[Path, dict[str, object], str], tmp_path: Path) -> Path:
    """The same folder, to be changed."""
    return Path(shutil.copytree(indexed[0], tmp_path / "harbours", copy_function=shutil.copy2))


def quotes(answer: dict[str, object]) -> str:
    return json.dumps(answer["citations"])


def test_the_first_question_is_answered_with_a_quote(indexed: tuple[Path, dict[str, object], str]) -> None:
    folder, answer, told = indexed
    assert answer["status"] == "answered"
    assert "51 cranes" in quotes(answer)
    assert len(re.findall(r"texts embedded (\d+)/\1\b", told)) == 1, "one process waits for the other"
    (line,) = [line for line in told.splitlines() if "left out" in line]
    assert "broken.docx" in line
    assert "lighthouse" not in (folder / ".citelock" / "sources" / "docs" / "sync_state.json").read_text("utf-8")


def test_the_second_question_embeds_nothing(indexed: tuple[Path, dict[str, object], str]) -> None:
    answer, told = asked(indexed[0], "How many cranes has the harbour of Cork number 22?")
    assert "62 cranes" in quotes(answer)
    assert told == ""


def test_citations_lead_to_the_file(
    indexed: tuple[Path, dict[str, object], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, answer, _ = indexed
    file = f"{(folder / 'Bergen-11.md').as_uri()}#cranes"
    assert [citation["url"] for citation in answer["citations"]] == [file]  # type: ignore[attr-defined]
    monkeypatch.chdir(folder.parent)
    assert "    harbours/Bergen-11.md#cranes" in run("ask", "--docs", str(folder), QUESTION)[1].splitlines()
    assert (
        json.loads(run("search", "--json", "--docs", str(folder), "Bergen 11", "-k", "1")[1])["results"][0]["url"]
        == file
    )


def test_links_stay_where_no_file_is(indexed: tuple[Path, dict[str, object], str]) -> None:
    folder = indexed[0]
    links = FileLinks(load_config(folder / ".citelock" / "app.yaml"))
    known = json.loads((folder / ".citelock" / "sources" / "docs" / "sync_state.json").read_text("utf-8"))["state"][
        "files"
    ]
    page_id = known["Cork-22.md"][0]
    assert links(f"/p/{page_id}#page=3") == f"{(folder / 'Cork-22.md').as_uri()}#page=3"
    for url in ("/p/docunknown#a", "https://wiki.example/p/1#a", "#selection"):
        assert links(url) == url


def assert_follows(post: Callable[..., httpx.Response], folder: Path) -> None:
    """A server answers from a folder, with links to its own page, and then from what is indexed beside it."""

    def served() -> str:
        answer = post("/v1/ask", json={"question": QUESTION}).raise_for_status().json()
        assert answer["citations"][0]["url"].startswith("/p/")
        return quotes(answer)

    assert "51 cranes" in served()
    page = folder / "Bergen-11.md"
    page.write_text(page.read_text("utf-8").replace("51 cranes", "88 cranes"), "utf-8")
    asked(folder, QUESTION)
    wait_until(lambda: "88 cranes" in served())


def test_a_server_answers_from_the_folder_and_follows_what_is_indexed_beside_it(copied: Path) -> None:
    with TestClient(create_app(load_config(config_of(copied, None))), ADDRESS, client=LOCAL) as client:
        assert_follows(client.post, copied)


def test_a_server_with_what_the_base_installs_follows_what_another_process_indexes(copied: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (
        httpx.Client(base_url=url, timeout=60) as client,
        started("serve", "--docs", copied, "--port", str(port)) as process,
    ):
        try:
            wait_until(lambda: process.poll() is None and status_of(f"{url}/readyz") == 200)
            assert_follows(client.post, copied)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_what_was_made_of_an_index_that_is_gone_is_made_again(copied: Path) -> None:
    shutil.rmtree(copied / ".citelock" / "tenants")
    answer, told = asked(copied, QUESTION)
    assert "51 cranes" in quotes(answer)
    assert "texts embedded" in told


def test_a_text_is_checked_against_a_folder(indexed: tuple[Path, dict[str, object], str], tmp_path: Path) -> None:
    folder, answer, _ = indexed
    sentence = str(answer["answer"]).split(". ")[0].split(" [")[0].rstrip(".") + "."
    (tmp_path / "draft.md").write_text(f"# Draft\n\n{sentence}\n", "utf-8")
    code, out, err = run("check", str(tmp_path / "draft.md"), "--format", "json", "--docs", str(folder))
    assert code == 0, err
    (claim,) = [claim for claim in json.loads(out)["claims"] if claim["verdict"] != "no_claim"]
    assert (claim["text"], claim["verdict"]) == (sentence, "verbatim")


def test_the_receipt_is_proved_by_the_configuration_that_was_written(
    indexed: tuple[Path, dict[str, object], str],
) -> None:
    folder, answer, _ = indexed
    code, out, err = run("receipt", "verify", str(answer["receipt_id"]), "--config", f"{folder}/.citelock/app.yaml")
    assert code == 0, out + err


def test_only_what_changed_is_embedded_and_what_is_gone_is_not_cited(copied: Path) -> None:
    page = copied / "Bergen-11.md"
    page.write_text(page.read_text("utf-8").replace("51 cranes", "88 cranes"), "utf-8")
    (copied / "Cork-22.md").unlink()
    answer, told = asked(copied, QUESTION)
    assert "88 cranes" in quotes(answer)
    assert "51 cranes" not in quotes(answer)
    # It lies elsewhere than before: all its vectors are known but for this page's.
    assert re.findall(r"texts embedded (\d+)/(\d+)", told)[-1] == ("1", "1")
    assert "Cork-22" not in quotes(asked(copied, "How many cranes has the harbour of Cork number 22?")[0])


def known_texts(folder: Path) -> int:
    cache = folder / ".citelock" / "tenants" / "docs" / "cache" / "vectors.sqlite"
    if not cache.is_file():
        return 0
    with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as database:
        try:
            (count,) = database.execute("SELECT count(*) FROM vectors").fetchone()
        except sqlite3.OperationalError:
            return 0
    return int(count)


def test_a_process_that_is_killed_has_answered_and_loses_nothing_that_was_embedded(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "harbours", 120)
    with started("ask", "--docs", folder, QUESTION) as process:
        ends = time.monotonic() + 200
        while not known_texts(folder):
            assert process.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        assert "51 cranes" in process.communicate()[0]
    kept = known_texts(folder)
    assert 0 < kept < 120
    answer, told = asked(folder, QUESTION)
    assert (answer["flags"], answer["still_indexing"]) == (["still_indexing"], True)
    assert "51 cranes" in quotes(answer)
    assert int(re.findall(r"texts embedded \d+/(\d+)", told)[-1]) == known_texts(folder) - kept


@pytest.fixture
def unindexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that was never indexed, with more passages than a question waits for."""
    monkeypatch.setattr(folder_index, "_FEW", 0)
    return write_folder(tmp_path / "harbours", 12)


def test_the_first_answer_is_by_words_and_vectors_are_made_after_it(unindexed: Path) -> None:
    answer, told = asked(unindexed, QUESTION)
    assert (answer["flags"], answer["still_indexing"]) == (["still_indexing"], True)
    assert "51 cranes" in quotes(answer)
    assert told.index("making the vectors") < told.index("texts embedded")
    again, told = asked(unindexed, QUESTION)
    assert (again["flags"], again["citations"], told) == ([], answer["citations"], "")
    code, out, err = run("receipt", "verify", str(answer["receipt_id"]), "--config", f"{unindexed}/.citelock/app.yaml")
    assert code == 0, out + err


def test_whoever_waits_is_answered_by_words_and_meaning(unindexed: Path) -> None:
    answer, told = asked(unindexed, QUESTION, "--wait")
    assert (answer["flags"], "making the vectors" in told) == ([], False)


def test_what_runs_for_long_takes_vectors_over_when_they_are_made(unindexed: Path) -> None:
    with open_pipeline(config_of(unindexed, None), None, asks=True) as pipeline:
        answers = [pipeline.ask(Principal("docs"), QUESTION)]
        wait_until(lambda: not answers.append(pipeline.ask(Principal("docs"), QUESTION)) and not answers[-1].flags)
    assert answers[0].flags == ("still_indexing",)
    assert answers[0].citations == answers[-1].citations


def turn_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_turned_bit_is_told_and_the_index_made_again(copied: Path) -> None:
    asked(copied, QUESTION)
    home = copied / ".citelock"
    files = [home / "secret", *(path for name in ("sources", "tenants") for path in (home / name).rglob("*"))]
    for path in (path for path in files if path.is_file() and path.stat().st_size and "cache" not in path.parts):
        turn_a_bit(path)
        assert folder_index._is_altered(home), path
        turn_a_bit(path)
    assert not folder_index._is_altered(home)
    for name in ("sources/docs/pages.parquet", "tenants/docs/published.json", "tenants/docs/generations/*/*.npy"):
        turn_a_bit(next(home.glob(name)))
    answer, told = asked(copied, QUESTION)
    assert ("51 cranes" in quotes(answer), answer["flags"]) == (True, [])
    assert f"the index of {copied} was altered, and is made again" in told
    assert asked(copied, QUESTION)[1] == ""


def test_a_bit_turned_after_a_process_was_killed_is_mended_as_well(copied: Path) -> None:
    asked(copied, QUESTION)
    home = copied / ".citelock"
    folder_index._note(home, folder_index._noted(home)._replace(stamps="", content=""))
    turn_a_bit(next(home.glob("tenants/docs/generations/*/*.npy")))
    assert "51 cranes" in quotes(asked(copied, QUESTION)[0])


@pytest.mark.parametrize("page", ["README.md", "docs/ten-minutes.md"])
def test_what_the_documents_say_is_so(page: str, tmp_path: Path) -> None:
    (line,) = re.findall(r"^citelock (ask --docs .*)", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    arguments = shlex.split(line, comments=True)
    folder = tmp_path / arguments[2]
    folder.mkdir()
    (folder / "backups.md").write_text("# Backups\n\n## Time\n\nBackups are kept for 35 days.\n", "utf-8")
    code, out, err = run(*arguments[:2], str(folder), *arguments[3:])
    assert code == 0, err
    assert "“Backups are kept for 35 days.”" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--docs", "missing"], "no folder missing"),
        (["--docs", "page.md"], "page.md is no folder"),
        (["--docs", "empty"], "holds no file"),
        (["--docs", "empty", "--config", "app.yaml"], "leave out --config"),
        (["--docs", "binary"], "no document in "),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("# Page\n", "utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "picture.bin").write_bytes(bytes(range(256)))
    code, out, err = run("ask", "Anything?", *arguments)
    assert (code, out) == (2, "")
    assert reason in err.splitlines()[-1]


def test_a_folder_that_cannot_be_written_to_is_indexed_in_the_user_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert folder_index._home(tmp_path) == tmp_path / ".citelock"
    monkeypatch.setattr(os, "access", lambda *_: False)
    one, two = folder_index._home(tmp_path), folder_index._home(tmp_path / "other")
    assert one.parent == two.parent == tmp_path / "cache" / "citelock"
    assert one != two


def test_the_variables_of_another_installation_are_left_aside(
    indexed: tuple[Path, dict[str, object], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("CITELOCK_INDEX__KIND", "postgres")
    monkeypatch.setenv("CITELOCK_INDEX__URL", "postgresql://nobody@127.0.0.1:1/none")
    assert "51 cranes" in quotes(asked(indexed[0], QUESTION)[0])
    assert not (tmp_path / "other").exists()
