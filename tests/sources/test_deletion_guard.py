"""Every kind of source refuses a loss that a person should look at: a large share, or all that belongs together."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from sources.export_writer import Export
from sources.stand_in_confluence import StandIn
from sources.stand_in_mcp import make_server, over_http
from sources.stand_in_s3 import Bucket, running
from sources.stand_in_site import Envelope, page
from sources.syncs import Syncs
from support.examples import by_day

from rag_assets.sources import SourceError, SyncResult, open_source
from rag_serving.config.sources import Source

OPEN, OPS, FOLDER = range(1, 31), range(31, 35), range(36, 40)
"""Pages for all, for one group, and those below page 35 or in the folder `guides`."""
EVERY = {*OPEN, *OPS, 35, *FOLDER}
LOSSES = {"share": (set(range(1, 12)), "11 of 39"), "readers": (set(OPS), "all 4"), "place": (set(FOLDER), "all 4")}

Wiki = Callable[[Collection[int]], None]
"""Makes a source hold pages of these numbers and no others."""


def envelope(number: int) -> Envelope:
    parents = [35] if number in FOLDER else []
    return page(
        number, groups=["ops"] if number in OPS else [], parents=parents, _links={"base": "https://wiki.example"}
    )


def file_of(number: int) -> str:
    return f"guides/{number}.md" if number in FOLDER else f"{number}.md"


class Kind:
    """A source of one kind, synced again and again."""

    def __init__(self, settings: dict[str, Any], folder: Path) -> None:
        self.settings = {"tenant": "acme", "readers": "everyone", **settings}
        self.folder = folder
        self.last: SyncResult | None = None

    def sync(self, **more: Any) -> SyncResult:
        settings: Any = TypeAdapter(Source).validate_python({**self.settings, **more})
        source = open_source("eng", settings, self.folder)
        last = self.last
        self.last = source.sync(last.pages if last else None, last.state if last else {})
        return self.last


def check(kind: Kind, hold: Wiki, lost: Collection[int], says: str) -> None:
    """Lose pages, be refused, and accept it; a page that goes alone is believed."""
    hold(EVERY)
    assert len(kind.sync().pages) == len(EVERY)
    hold(EVERY - set(lost))
    with pytest.raises(SourceError, match=rf"source 'eng' lacks {says}.*; nothing was deleted.*max_deleted_share to 1"):
        kind.sync()
    assert kind.last is not None
    assert len(kind.last.pages) == len(EVERY)
    hold(EVERY - {1})
    assert kind.sync().deleted == 1
    hold(EVERY - {1, *lost})
    assert kind.sync(max_deleted_share=1).deleted == len({1, *lost}) - 1


def envelopes_in(folder: Path) -> Wiki:
    def hold(numbers: Collection[int]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number in numbers:
            (folder / f"{number}.json").write_text(json.dumps(envelope(number)), encoding="utf-8")

    return hold


def files_in(folder: Path) -> Wiki:
    def hold(numbers: Collection[int]) -> None:
        for number in EVERY:
            path = folder / file_of(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            if number in numbers:
                path.write_text(f"# Page {number}\n\nText {number * 7919}.\n", encoding="utf-8")
            else:
                path.unlink(missing_ok=True)

    return hold


def zipped(hold: Wiki, folder: Path, path: Path) -> Wiki:
    def hold_zip(numbers: Collection[int]) -> None:
        hold(numbers)
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(folder.rglob("*.*")):
                archive.write(file, file.relative_to(folder))

    return hold_zip


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_dump(tmp_path: Path, form: str, loss: str) -> None:
    folder, archive = tmp_path / "dump", tmp_path / "dump.zip"
    hold = envelopes_in(folder)
    hold = zipped(hold, folder, archive) if form == "zip" else hold
    path = archive if form == "zip" else folder
    check(Kind({"kind": "confluence_dump", "path": path}, tmp_path), hold, *LOSSES[loss])


@pytest.mark.parametrize("loss", LOSSES)
def test_an_export(tmp_path: Path, loss: str) -> None:
    path = tmp_path / "export.zip"

    def hold(numbers: Collection[int]) -> None:
        Export().add(*map(envelope, sorted(numbers))).write(path)

    settings = {"kind": "confluence_export", "path": path, "base_url": "https://wiki.example"}
    check(Kind(settings, tmp_path), hold, *LOSSES[loss])


@pytest.mark.parametrize("loss", by_day({"share"}, LOSSES))
def test_an_mcp_server(tmp_path: Path, loss: str) -> None:
    folder = tmp_path / "wiki"
    hold = envelopes_in(folder)
    hold(EVERY)
    with over_http(make_server(folder)) as url:
        kind = Kind({"kind": "confluence_mcp", "space": "ENG", "url": url}, tmp_path)
        check(kind, hold, *LOSSES[loss])


@pytest.mark.parametrize("loss", ["share", "place"])
@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("kind", ["files", "docs_folder", "markdown_book"])
def test_files(tmp_path: Path, kind: str, form: str, loss: str) -> None:
    folder, archive = tmp_path / "docs", tmp_path / "docs.zip"
    hold = files_in(folder)
    hold = zipped(hold, folder, archive) if form == "zip" else hold
    path = archive if form == "zip" else folder
    check(Kind({"kind": kind, "path": path}, tmp_path), hold, *LOSSES[loss])


@pytest.mark.parametrize("loss", ["share", "place"])
def test_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    with running(Bucket()) as bucket:
        for name, value in (("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s"), ("REGION", "eu-central-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)

        def hold(numbers: Collection[int]) -> None:
            bucket.page = 1000
            bucket.objects = {f"docs/{file_of(number)}": f"# Page {number}\n".encode() for number in numbers}

        check(Kind({"kind": "files", "path": "s3://team/docs"}, tmp_path), hold, *LOSSES[loss])


def test_a_live_space_that_hides_all_pages_of_a_group_and_one_whose_pages_were_deleted(tmp_path: Path) -> None:
    with StandIn("datacenter") as wiki:
        wiki.site.put(*({**envelope(one), "_links": {"webui": f"/display/ENG/{one}"}} for one in sorted(EVERY)))
        sync = Syncs(wiki, tmp_path)
        sync()
        wiki.site.forbidden |= {str(number) for number in OPS}
        with pytest.raises(SourceError, match=r"lacks all 4 pages with the readers group:ops that it had"):
            sync()
        wiki.site.forbidden.clear()
        wiki.site.delete(*(str(number) for number in (35, *FOLDER)))
        assert sync().deleted == 5, "each was asked for by its id: nobody must read what may have been restricted"


def test_attachments_that_are_gone_while_their_pages_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    envelopes_in(folder)(range(1, 11))
    for number in range(1, 11):
        file = folder / "attachments" / str(number) / "plan.txt"
        file.parent.mkdir(parents=True)
        file.write_text(f"Plan {number}.", encoding="utf-8")
    kind = Kind({"kind": "confluence_dump", "path": folder, "attachments": "text"}, tmp_path)
    assert len(kind.sync().pages) == 20
    shutil.rmtree(folder / "attachments")
    with pytest.raises(SourceError, match="lacks 10 of 10 attachments and comments"):
        kind.sync()
    assert kind.sync(attachments="none").deleted == 10, "asked for by a setting"


def test_a_folder_of_a_dump_that_cannot_be_listed_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dump"
    envelopes_in(folder)(OPEN)
    (folder / "more").mkdir()
    (folder / "more" / "35.json").write_text(json.dumps(envelope(35)), encoding="utf-8")
    kind = Kind({"kind": "confluence_dump", "path": folder}, tmp_path)
    kind.sync()
    listed = os.scandir

    def refused(path: Any) -> Any:
        if Path(path).name == "more":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(SourceError, match="more cannot be read \\(Permission denied\\)"):
        kind.sync()
