"""The inbox by itself: what a killed process leaves, names, kinds, and who may grant what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.access.principals import Principal, may_all_read, satisfies
from rag_serving.artifacts import document_files
from rag_serving.artifacts.document_files import DocumentFiles
from rag_serving.config.sources import Files
from rag_serving.documents.inbox import GrantError, Inbox, TooManyDocumentsError, Upload, grantable, granted, narrowest
from rag_serving.documents.kinds import MAX_BYTES, MAX_CHARS, safe_name

SETTINGS = Files(kind="files", tenant="acme")
ANN = Principal("acme", "ann", frozenset({"hr"}), frozenset({"editor"}))


def inbox(folder: Path) -> Inbox:
    return Inbox("uploads", SETTINGS, folder)


def put(place: Inbox, content: bytes, name: str = "a.md", document_id: str | None = None) -> str:
    spool = place.files.spool()
    spool.write(content)
    upload = Upload(spool, name, None, "user:ann", document_id)
    return place.receive(ANN, upload, 100).document.document_id


KILLED = """
import os, signal, sys
from pathlib import Path
from rag_serving.access.principals import Principal
from rag_serving.artifacts import document_files, store
from rag_serving.documents.inbox import Inbox, Upload
from rag_serving.config.sources import Files
where = sys.argv[2]
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
if where == "spooled": document_files.DocumentFiles.keep = die
if where == "kept": document_files.DocumentFiles.write_document = die
if where == "renaming": Path.replace = die
place = Inbox("uploads", Files(kind="files", tenant="acme"), Path(sys.argv[1]))
spool = place.files.spool()
spool.write(b"words of a killed upload")
if where == "spooling": die()
place.receive(None, Upload(spool, "a.md", None, "user:ann"), 100)
"""


@pytest.mark.parametrize("where", ["spooling", "spooled", "renaming", "kept"])
def test_a_killed_upload_leaves_no_document_and_holds_up_no_other(tmp_path: Path, where: str) -> None:
    place = inbox(tmp_path)
    known = put(place, b"known")
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), where], check=False, timeout=60)
    assert run.returncode == -signal.SIGKILL
    assert set(inbox(tmp_path).entries()) == {known}
    again = put(place, b"words of a killed upload")
    entry = inbox(tmp_path).entries()[again]
    with place.files.open_content(entry.document.current.sha256) as file:
        assert file.read() == b"words of a killed upload"


def test_what_was_left_is_swept_and_what_is_named_or_under_way_stays(tmp_path: Path) -> None:
    place = inbox(tmp_path)
    identifier = put(place, b"named")
    entry = place.entries()[identifier]
    stray = place.files.spool()
    stray.write(b"never finished")
    stray.close()
    kept = place.files.spool()
    kept.write(b"kept, and named by nothing")
    place.files.keep(kept)
    named = {entry.document.current.sha256}
    assert place.files.sweep(named) == 1
    assert stray.path.exists()
    os.utime(stray.path, (0, 0))
    assert place.files.sweep(named, time.time()) == 1
    assert not stray.path.exists()
    assert place.files.content_path(entry.document.current.sha256).exists()
    assert document_files.ABANDONED_S >= 3600


def test_a_damaged_record_hides_its_document_alone(tmp_path: Path) -> None:
    place = inbox(tmp_path)
    first, second = put(place, b"one"), put(place, b"two")
    record = tmp_path / "inbox" / "documents" / f"{first}.json"
    text = record.read_text()
    for damage in ("", "{", "[]", text.replace(first, "../x"), text.replace('"version": 1', '"version": -1')):
        record.write_text(damage)
        assert set(inbox(tmp_path).entries()) == {second}, damage
    (tmp_path / "inbox" / "states.json").write_text('{"x": 1, "' + second + '": {"version": "many"}}')
    assert inbox(tmp_path).entries()[second].status == "received"


def test_an_inbox_is_full_for_new_documents_only(tmp_path: Path) -> None:
    place = inbox(tmp_path)
    first = put(place, b"one")
    spool = place.files.spool()
    spool.write(b"two")
    with pytest.raises(TooManyDocumentsError):
        place.receive(ANN, Upload(spool, "b.md", None, "user:ann"), 1)
    spool.discard()
    assert put(place, b"three", document_id=first) == first


def test_names_of_files_in_an_inbox_are_no_paths(tmp_path: Path) -> None:
    files = DocumentFiles(tmp_path)
    for name in ("../x", "a/b", "", "A", "x" * 65, "a\n"):
        with pytest.raises(ValueError, match="no name"):
            files.content_path(name)


@given(st.text(max_size=400) | st.text(alphabet="../\\\0\u202e\u200b a.é", max_size=60))
def test_a_safe_name_is_one_line_without_folders(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe) <= MAX_CHARS
    assert len(safe.encode()) <= MAX_BYTES
    assert safe == safe_name(safe)
    assert not {"/", "\\", "\0", "\n", "\u202e"} & set(safe)
    assert not safe.startswith(".")
    assert safe == unicodedata.normalize("NFC", safe)


names = st.lists(st.sampled_from(["user:ann", "user:bob", "group:hr", "group:ops", "everyone", ""]), max_size=3)


@given(names, st.booleans())
def test_nobody_grants_more_than_everyone_himself_and_his_groups(asked: list[str], has_user: bool) -> None:
    caller = Principal("acme", "ann" if has_user else None, frozenset({"hr"}))
    try:
        readers = granted(caller, str(asked).replace("'", '"'))
    except GrantError:
        assert not asked or not set(asked) <= set(grantable(caller))
        return
    assert readers is not None
    assert set(asked) <= set(grantable(caller))
    assert satisfies(caller, readers)
    assert satisfies(caller, narrowest(caller))
    assert may_all_read(narrowest(caller), readers) or len(set(asked)) == 1
