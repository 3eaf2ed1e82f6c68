"""`citelock lint` of a folder: what it prints, when it fails, and how one says that something may stay."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from pathlib import Path

import pytest
import yaml
from support.command_line import CITELOCK, run

from rag_assets.steps.contradictions import examination

GUIDE = "# Guide\n\n## Sign-in\n\nAn access token expires after 15 minutes without use.\n"
API = "# API\n\nFirst words.\n\n## Tokens\n\nAn access token expires after 30 minutes without use.\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep nothing in the cache of who runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "api.md").write_text(API, encoding="utf-8")
    (folder / "old.md").write_text(API.replace("API", "API (outdated)").replace("30", "90"), encoding="utf-8")
    return folder


def findings(docs: Path, *arguments: str) -> list[dict[str, object]]:
    """What is listed of a folder."""
    listed: list[dict[str, object]] = json.loads(run("lint", str(docs), "--format", "json", *arguments)[1])["findings"]
    return listed


def acknowledge(folder: Path, one: str, **more: object) -> str:
    """Write a file that acknowledges a finding and return its path."""
    path = folder / "known.yaml"
    entry = {"id": one, "reason": "two kinds of tokens", **more}
    path.write_text(yaml.safe_dump({"acknowledged": [entry]}), encoding="utf-8")
    return str(path)


def test_both_sentences_are_listed_with_their_files_and_the_command_fails(docs: Path) -> None:
    done = subprocess.run([*CITELOCK, "lint", str(docs)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "An access token expires after 15 minutes without use." in done.stdout
    assert "An access token expires after 30 minutes without use." in done.stdout
    assert "guide.md" in done.stdout
    assert "api.md" in done.stdout
    assert "90 minutes" not in done.stdout  # the page says that it is outdated
    assert done.stdout.endswith(" pages read, 1 to look at\n")
    assert not list(docs.glob(".*"))


def test_sarif_names_file_and_line_of_both_sentences(docs: Path) -> None:
    (log,) = json.loads(run("lint", str(docs), "--format", "sarif")[1])["runs"]
    (result,) = log["results"]
    places = [*result["locations"], *result["relatedLocations"]]
    lines = {
        Path(place["physicalLocation"]["artifactLocation"]["uri"]).name: place["physicalLocation"]["region"][
            "startLine"
        ]
        for place in places
    }
    assert lines == {"guide.md": 5, "api.md": 7}
    assert result["ruleId"] in {rule["id"] for rule in log["tool"]["driver"]["rules"]}
    assert "15 minutes" in result["message"]["text"]


def test_what_is_acknowledged_is_not_listed_until_its_date_or_until_its_text_changes(docs: Path) -> None:
    (one,) = findings(docs)
    known = acknowledge(docs.parent, str(one["id"]))
    assert run("lint", str(docs), "--acknowledged", known)[0] == 0
    (docs / "guide.md").write_text(f"# Guide\n\n## News\n\nWords above it.\n{GUIDE[7:]}", encoding="utf-8")
    assert findings(docs, "--acknowledged", known) == []
    acknowledge(docs.parent, str(one["id"]), until=date(2020, 1, 1))
    assert [each["id"] for each in findings(docs, "--acknowledged", known)] == [one["id"]]
    acknowledge(docs.parent, str(one["id"]))
    (docs / "api.md").write_text(API.replace("30", "45"), encoding="utf-8")
    (changed,) = findings(docs, "--acknowledged", known)
    assert changed["id"] != one["id"]


def test_what_is_of_each_page_or_the_number_of_a_step_is_no_other_value(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, name in enumerate(("Scheduling", "Storage"), start=2):
        text = f"# Annual report: {name}\n\n## Membership\n\n- Primary channel member count: {number}50\n\n"
        steps = f"{number}.Use the account of the service to deploy.\n"
        (folder / f"{name}.md").write_text(text + steps, encoding="utf-8")
        settings = f"- request.timeout.ms: How long one waits.\n- retries: How often.\n  - Default: {number}\n"
        (folder / f"of-{name}.md").write_text(f"# {name}\n\n## Settings\n\n{settings}", encoding="utf-8")
    assert findings(folder) == []


def test_an_unchanged_folder_is_not_read_again_and_of_a_changed_one_only_the_changed_page(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = examination.records_of
    counted = lambda table, rows: [read.append(one.page_id) or one for one in real(table, rows)]  # noqa: E731
    monkeypatch.setattr(examination, "records_of", counted)
    first = findings(docs)
    read.clear()
    assert findings(docs) == first
    assert read == []
    (docs / "old.md").write_text("# Old\n\n## Tokens\n\nOther words.\n", encoding="utf-8")
    assert findings(docs) == first
    assert len(set(read)) == 1


def test_versions_are_compared_when_that_is_asked_for(tmp_path: Path) -> None:
    tmp_path /= "docs"
    for version, minutes in (("1.0", 15), ("2.0", 30)):
        (tmp_path / version).mkdir(parents=True)
        text = f"# Limits\n\n## Tokens\n\nAn access token expires after {minutes} minutes without use.\n"
        (tmp_path / version / "limits.md").write_text(text, encoding="utf-8")
    assert findings(tmp_path) == []
    assert len(findings(tmp_path, "--versions")) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [("acknowledged: [{id: a}]", "needs an `id` and a `reason`"), ("acknowledged: 3", "a list"), ("[", "known.yaml")],
)
def test_a_file_that_acknowledges_nothing_readable_is_refused_in_one_line(docs: Path, content: str, said: str) -> None:
    (docs.parent / "known.yaml").write_text(content, encoding="utf-8")
    code, _, told = run("lint", str(docs), "--acknowledged", str(docs.parent / "known.yaml"))
    assert code == 2
    assert said in told
    assert "Traceback" not in told


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    code, _, told = run("lint", str(tmp_path / "absent"))
    assert code == 2
    assert "is not a folder" in told
