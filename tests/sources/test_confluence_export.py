"""An export gives the rows that the REST dump of the same pages gives, and no reader that Confluence would refuse."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sources.export_writer import Export
from sources.stand_in_site import Envelope, page

from rag_assets.sources import SourceError, SyncResult, open_source
from rag_assets.sources import exported_space as limits
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceDump, ConfluenceExport

SAMPLE = Path(__file__).parents[2] / "sample"
SITE = "https://wiki.example"


def settings(path: Path, **more: Any) -> ConfluenceExport:
    given = {"tenant": "acme", "path": path, "readers": "everyone", "base_url": SITE, **more}
    return ConfluenceExport(kind="confluence_export", **given)


def sync(path: Path, last: SyncResult | None = None, **more: Any) -> SyncResult:
    source = open_source("eng", settings(path, **more), path)
    result = source.sync(last.pages if last else None, last.state if last else {})
    assert result.unaccounted == 0
    return result


def column(result: SyncResult, name: str) -> dict[str, Any]:
    return dict(zip(result.pages["page_id"].to_pylist(), result.pages[name].to_pylist(), strict=True))


def without_addresses(folder: Path) -> list[Envelope]:
    """The envelopes of a folder as a Data Center site gives them: with keys of users, and here without short links,
    which an export does not know."""
    envelopes = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    for one in envelopes:
        for number, user in enumerate(one["restrictions"]["read"]["restrictions"]["user"]["results"]):
            user["userKey"] = f"8a7f80897523097801{number:04}"
    return [{**one, "_links": {"base": SITE}} for one in envelopes]


def test_an_export_of_the_sample_gives_the_rows_of_its_dump(tmp_path: Path) -> None:
    envelopes = without_addresses(SAMPLE / "ENG")
    dump = tmp_path / "dump"
    dump.mkdir()
    for one in envelopes:
        (dump / f"{one['id']}.json").write_text(json.dumps(one), encoding="utf-8")
    export = Export().add(*envelopes).write(tmp_path / "export.zip")
    read = ConfluenceDump(kind="confluence_dump", tenant="acme", path=dump, readers="everyone")
    expected = open_source("eng", read, dump).sync(None, {})
    found = sync(export)
    named = [{**row, "space_name": "Eng"} for row in expected.pages.to_pylist()]  # as the writer of exports names it
    assert found.pages.to_pylist() == named
    assert (found.seen, found.failed, found.hidden) == (len(envelopes), 0, ())


def test_who_made_the_version_is_told_by_user_name(tmp_path: Path) -> None:
    edited = page(1, version={"number": 2, "when": "2026-03-01T10:00:00.000Z", "by": {"username": "ann"}})
    assert column(sync(Export().add(edited, page(2)).write(tmp_path / "e.zip")), "author") == {"1": "ann", "2": None}


def test_code_survives_the_spaces_that_an_export_puts_after_brackets(tmp_path: Path) -> None:
    code = "if a[b[0]] > 3 and c[d[1]]: x = [[1, 2]] ; y = '<![CDATA['"
    body = f"<ac:structured-macro ac:name='code'><ac:plain-text-body><![CDATA[{code}]]></ac:plain-text-body>"
    body += "</ac:structured-macro>"
    assert column(sync(Export().add(page(1, body=body)).write(tmp_path / "e.zip")), "body") == {"1": body}


def test_only_current_versions_are_pages(tmp_path: Path) -> None:
    export = Export().add(
        page(1, "New", version={"number": 3, "when": "2026-03-01T10:00:00Z"}), page(2, status="draft")
    )
    export.add(page(3, type="blogpost"))
    export.historical("1", "Old", "<p>Old text.</p>", 1)
    export.historical("1", "Older", "<p>Older text.</p>", 2)
    result = sync(export.write(tmp_path / "e.zip"))
    assert column(result, "title") == {"1": "New"}
    assert column(result, "body") == {"1": "<p>Text of page 1.</p>"}
    assert [page_id for page_id, _ in result.excluded] == ["2", "3"]
    assert result.seen == 3


def test_versions_that_only_their_page_names_are_historical_too(tmp_path: Path) -> None:
    export = Export().add(page(1), page(2, "Old"))
    element = '<element class="Page"><id name="id">2</id></element>'
    empty = '<collection name="historicalVersions" class="java.util.Collection"/>'
    named = f'<collection name="historicalVersions">{element}</collection>'
    export.objects[:] = [one.replace(empty, named) if "Page 1" in one else one for one in export.objects]
    assert column(sync(export.write(tmp_path / "e.zip")), "title") == {"1": "Page 1"}


def test_restrictions_of_a_page_and_of_every_ancestor_narrow(tmp_path: Path) -> None:
    export = Export().add(page(1, groups=["ops"]), page(2, parents=[1]), page(3, parents=[1, 2], users=["ann"]))
    readers = column(sync(export.write(tmp_path / "e.zip"), readers=["group:hq"]), "readers")
    assert readers["2"] == "group:hq&group:ops"
    assert readers["3"].count("&") == 2
    assert "user:ann" in readers["3"]


def test_a_user_is_known_by_name_account_and_key(tmp_path: Path) -> None:
    export = Export().add(page(1))
    export.restrict("1", "View", [{"user": "ann", "username": "ann", "accountId": "5f:1", "userKey": "k1"}])
    readers = column(sync(export.write(tmp_path / "e.zip")), "readers")["1"]
    assert set(readers.split("|")) == {"user:ann", "user:5f:1", "user:k1"}


def test_members_that_only_their_set_lists_or_that_only_name_their_set_count(tmp_path: Path) -> None:
    export = Export().add(page(1))
    export.restrict("1", "View", [{"group": "ops"}], list_members=False)
    assert column(sync(export.write(tmp_path / "e.zip")), "readers") == {"1": "group:ops"}


@pytest.mark.parametrize("fault", ["empty set", "unknown type", "set not there", "user gone", "ancestor not there"])
def test_restrictions_that_cannot_be_resolved_let_nobody_in_and_are_told(tmp_path: Path, fault: str) -> None:
    export = Export().add(page(2))
    if fault == "ancestor not there":
        export.add(page(1), parent="77")
    else:
        export.add(page(1))
        set_id = export.restrict("1", "Export" if fault == "unknown type" else "View", [{"group": "ops"}])
        if fault in ("empty set", "user gone"):
            export.objects[:] = [one.replace("<![CDATA[ops]]>", "") for one in export.objects]
        if fault == "set not there":
            named = (
                f'<collection name="contentPermissionSets"><element><id name="id">{set_id}9</id></element></collection>'
            )
            export.objects[:] = [
                one.replace('<id name="id">1</id>', f'<id name="id">1</id>{named}', 1) for one in export.objects
            ]
    result = sync(export.write(tmp_path / "e.zip"))
    assert column(result, "readers") == {"1": NOBODY, "2": EVERYONE}
    assert [page_id for page_id, _ in result.hidden] == ["1"]


def test_permissions_to_edit_narrow_nobody(tmp_path: Path) -> None:
    export = Export().add(page(1))
    export.restrict("1", "Edit", [{"group": "ops"}])
    export.restrict("1", "Share", [])
    assert column(sync(export.write(tmp_path / "e.zip")), "readers") == {"1": EVERYONE}


@pytest.mark.parametrize(
    ("viewers", "readers"),
    [
        ([{"group": "staff"}, {"group": "guests"}], "group:guests|group:staff"),
        ([{"user": "ann", "username": "ann", "userKey": "k1"}], "user:ann|user:k1"),
        ([{"group": "staff"}, {"anyone": "anonymous-users"}], EVERYONE),
        ([{"anyone": "authenticated-users"}], NOBODY),
        ([{}], NOBODY),
        ([], NOBODY),
    ],
)
def test_from_source_reads_who_may_view_the_space(tmp_path: Path, viewers: list[dict[str, str]], readers: str) -> None:
    result = sync(Export(viewers=viewers).add(page(1)).write(tmp_path / "e.zip"), readers="from_source")
    assert column(result, "readers") == {"1": readers}
    assert [("sources.eng.readers" in note) for note in result.notes] == ([True] if readers == NOBODY else [])


def test_dates_are_read_in_the_zone_that_the_export_names(tmp_path: Path) -> None:
    export = Export().add(page(1, version={"number": 1, "when": "2026-03-01T10:00:00Z"}))
    export.properties["timezoneId"] = "America/New_York"
    assert column(sync(export.write(tmp_path / "e.zip")), "updated_at")["1"].isoformat() == "2026-03-01T15:00:00+00:00"
    export.properties["timezoneId"] = "Nowhere/At all"
    assert column(sync(export.write(tmp_path / "f.zip")), "updated_at")["1"].isoformat() == "2026-03-01T10:00:00+00:00"


def test_the_flavor_is_read_from_the_export(tmp_path: Path) -> None:
    export = Export().add(page(1))
    assert set(column(sync(export.write(tmp_path / "e.zip")), "anchor_flavor").values()) == {"datacenter"}
    export.properties["source"] = "cloud"
    cloud = sync(export.write(tmp_path / "f.zip"))
    assert set(column(cloud, "anchor_flavor").values()) == {"cloud"}
    assert column(cloud, "url") == {"1": f"{SITE}/spaces/ENG/pages/1"}


def test_of_several_spaces_one_has_to_be_named(tmp_path: Path) -> None:
    both, other = Export().add(page(1)), Export("OPS", space_id=99002).add(page(2))
    both.objects += other.objects
    path = both.write(tmp_path / "e.zip")
    with pytest.raises(SourceError, match="holds the spaces ENG, OPS"):
        sync(path)
    assert column(sync(path, space="OPS"), "space") == {"2": "OPS"}
    with pytest.raises(SourceError, match="does not hold the space 'HR'"):
        sync(path, space="HR")


def test_a_page_without_a_usable_body_fails_alone_and_keeps_its_last_version(tmp_path: Path) -> None:
    export = Export().add(page(1), page(2), page(3))
    first = sync(export.write(tmp_path / "e.zip"))
    texts = [one.replace('"bodyType">2<', '"bodyType">0<') if "of page 2" in one else one for one in export.objects]
    named = '<collection name="bodyContents"><element class="BodyContent"><id name="id">33</id></element></collection>'
    texts = [one.replace(">3</id>", f">3</id>{named}", 1) if "Page 3" in one else one for one in texts]
    export.objects[:] = [one for one in texts if "of page 3" not in one]
    second = sync(export.write(tmp_path / "f.zip"), first)
    assert second.pages.equals(first.pages)
    assert (second.changed, second.deleted, second.failed) == (0, 0, 2)
    alone = sync(tmp_path / "f.zip")
    assert list(column(alone, "title")) == ["1"]
    assert [reason.partition(";")[0] for _, reason in alone.failures] == [
        "its body is not in storage format",
        "its body is not in the export",
    ]


def test_a_page_without_text_has_no_body_in_the_export_and_is_a_page(tmp_path: Path) -> None:
    export = Export().add(page(1), page(2))
    export.objects[:] = [one for one in export.objects if "of page 2" not in one]
    result = sync(export.write(tmp_path / "e.zip"))
    assert column(result, "body")["2"] == ""
    assert result.failed == 0


def test_a_second_sync_of_the_same_export_changes_nothing(tmp_path: Path) -> None:
    export = Export().add(page(1), page(2))
    first = sync(export.write(tmp_path / "e.zip"))
    again = sync(export.write(tmp_path / "f.zip", seed=8), first)
    assert (again.changed, again.deleted) == (0, 0)
    assert again.pages.equals(first.pages)


def test_ids_take_the_prefix(tmp_path: Path) -> None:
    export = Export().add(page(1, groups=["ops"]), page(2, parents=[1]))
    result = sync(export.write(tmp_path / "e.zip"), id_prefix="kb.")
    assert column(result, "ancestors") == {"kb.1": [], "kb.2": ["kb.1"]}
    assert column(result, "readers") == {"kb.1": "group:ops", "kb.2": "group:ops"}


def test_a_ring_of_parents_ends(tmp_path: Path) -> None:
    result = sync(Export().add(page(1), parent="2").add(page(2), parent="1").write(tmp_path / "e.zip"))
    assert column(result, "ancestors") == {"1": ["2"], "2": ["1"]}


def test_control_characters_are_left_out(tmp_path: Path) -> None:
    result = sync(Export().add(page(1, body="<p>a\x1cb</p>")).write(tmp_path / "e.zip"))
    assert column(result, "body") == {"1": "<p>ab</p>"}


def raw(path: Path, xml: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("entities.xml", xml)
    return path


def document(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("entities.xml").decode()


def test_a_cut_export_deletes_nothing(tmp_path: Path) -> None:
    whole = document(Export().add(*(page(number) for number in range(1, 20))).write(tmp_path / "e.zip"))
    for share in (0.2, 0.5, 0.9, 0.99):
        with pytest.raises(
            SourceError, match=r"export .*f\.zip: entities.xml is cut or broken.*export the space again"
        ):
            sync(raw(tmp_path / "f.zip", whole[: int(len(whole) * share)]))


@pytest.mark.parametrize(
    "prolog",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE hibernate-generic SYSTEM "http://127.0.0.1:1/x.dtd">',
    ],
)
def test_a_document_type_is_refused(tmp_path: Path, prolog: str) -> None:
    body = "<object class='Page'><id>1</id><property name='title'>&e;&b;</property></object>"
    xml = f'<?xml version="1.0"?>{prolog}<hibernate-generic>{body}</hibernate-generic>'
    with pytest.raises(SourceError, match="document type"):
        sync(raw(tmp_path / "e.zip", xml))


def test_a_document_type_cannot_hide_behind_a_long_comment_or_another_encoding(tmp_path: Path) -> None:
    hidden = f"<!--{'x' * 100_000}--><!DOCTYPE x [<!ENTITY a 'b'>]><hibernate-generic/>"
    for xml in (hidden.encode(), hidden.encode("utf-16"), b"<!-- <hibernate-generic -->" + hidden.encode()):
        with pytest.raises(SourceError, match="export"):
            sync(raw(tmp_path / "e.zip", xml))


def test_an_object_past_the_limit_is_refused_while_it_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_OBJECT_BYTES", 1_000_000)
    with pytest.raises(SourceError, match="an object of more than 1000000 bytes"):
        sync(Export().add(page(1, body="x" * 5_000_000)).write(tmp_path / "e.zip"))


@pytest.mark.parametrize("make", ["missing", "not a zip", "no entities", "another xml", "no pages"])
def test_an_export_that_is_none_is_one_clear_error(tmp_path: Path, make: str) -> None:
    path = tmp_path / "export.zip"
    if make == "not a zip":
        path.write_text("hello")
    elif make == "no entities":
        zipfile.ZipFile(path, "w").close()
    elif make == "another xml":
        raw(path, "<rss/>")
    elif make == "no pages":
        Export().write(path)
    with pytest.raises(SourceError, match=r"export .*export\.zip") as caught:
        sync(path)
    assert "\n" not in str(caught.value)


def test_the_fingerprint_follows_content_and_settings_and_not_the_clock(tmp_path: Path) -> None:
    export = Export().add(page(1))
    path = export.write(tmp_path / "e.zip")
    prints = [open_source("eng", settings(path, **more), path).fingerprint() for more in ({}, {"readers": ["group:a"]})]
    time.sleep(0.01)
    export.write(path)
    assert open_source("eng", settings(path), path).fingerprint() == prints[0] == sync(path).state["fingerprint"]
    export.add(page(2)).write(path)
    assert len({*prints, open_source("eng", settings(path), path).fingerprint()}) == 3
