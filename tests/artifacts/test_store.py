from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_serving.artifacts.schema import DEDUP_MAP, VERSION_KEY
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import (
    Store,
    StoreError,
    commit_folder,
    make_private,
    read_json,
    read_table,
    write_bytes,
    write_json,
    write_table,
)

ROW = {"dropped_id": "1:1:0", "kept_id": "2:1:0", "jaccard": 0.95, "scope": "across_spaces"}


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_table(tmp_path / "map.parquet", DEDUP_MAP.table([ROW]), DEDUP_MAP)
    assert read_table(tmp_path / "map.parquet", DEDUP_MAP).to_pylist()[0]["kept_id"] == "2:1:0"


def test_another_schema_version_is_named_with_its_mend(tmp_path: Path) -> None:
    table = DEDUP_MAP.table([ROW])
    old = table.replace_schema_metadata({VERSION_KEY: b"0"})
    pq.write_table(old, tmp_path / "map.parquet")
    with pytest.raises(StoreError, match=r"version 0 of table 'dedup_map'.*run `citelock build`"):
        read_table(tmp_path / "map.parquet", DEDUP_MAP)


def test_a_truncated_table_is_named_with_its_mend(tmp_path: Path) -> None:
    path = tmp_path / "map.parquet"
    write_table(path, DEDUP_MAP.table([ROW]), DEDUP_MAP)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"cannot be read.*delete it and run"):
        read_table(path, DEDUP_MAP)


def test_a_missing_file_is_named_with_its_mend(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"does not exist; run `citelock build`"):
        read_table(tmp_path / "map.parquet", DEDUP_MAP)
    with pytest.raises(StoreError, match="does not exist"):
        read_json(tmp_path / "manifest.json")


def test_columns_of_a_wrong_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"missing columns \['scope'\], extra columns \['scopes'\]"):
        DEDUP_MAP.table([{**{k: v for k, v in ROW.items() if k != "scope"}, "scopes": ""}])


def test_a_failing_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "state.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "state.json", {"a": object()})
    with pytest.raises(ValueError, match="not matching"):
        write_table(tmp_path / "state.json", pa.table({"scope": ["x"]}), DEDUP_MAP)
    assert read_json(tmp_path / "state.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_the_umask_says_who_may_read_what_is_written(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CITELOCK_SECRET", raising=False)
    before = os.umask(umask)
    try:
        write_table(tmp_path / "map.parquet", DEDUP_MAP.table([ROW]), DEDUP_MAP)
        write_json(tmp_path / "state.json", {})
        write_bytes(tmp_path / "graph.onnx", b"x")
        derived_key(tmp_path, "receipts")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    tables = dict.fromkeys(("map.parquet", "state.json", "graph.onnx"), 0o666 & ~umask)
    assert modes == {**tables, "secret": 0o600}


def test_only_a_complete_generation_can_be_published(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (store.generation("t", "half")).mkdir(parents=True)
    with pytest.raises(StoreError, match="generations list --tenant t"):
        store.point_current("t", "half")
    assert store.current("t") is None
    write_json(store.generation("t", "whole") / "manifest.json", {})
    store.point_current("t", "whole")
    assert store.current("t") == "whole"


def test_a_committed_folder_replaces_the_one_before(tmp_path: Path) -> None:
    for content in ("old", "new"):
        work = tmp_path / "work"
        (work / "lexical").mkdir(parents=True)
        (work / "lexical" / "data").write_text(content)
        commit_folder(work, tmp_path / "generations" / "g")
    assert (tmp_path / "generations" / "g" / "lexical" / "data").read_text() == "new"
    assert [path.name for path in (tmp_path / "generations").iterdir()] == ["g"]


def test_a_private_file_that_is_there_keeps_the_locks_that_sqlite_holds_on_it(tmp_path: Path) -> None:
    path = tmp_path / "serving.db"
    make_private(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("CREATE TABLE t (n INTEGER)")
    holder.execute("BEGIN EXCLUSIVE")
    make_private(path)
    code = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('INSERT INTO t VALUES (1)')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    holder.close()
    assert "database is locked" in other.stderr


def test_one_writer_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    hold = (
        "import sys; from pathlib import Path; from rag_serving.artifacts.store import Store\n"
        "with Store(Path(sys.argv[1])).lock('acme'): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(tmp_path)]
    entered = threading.Event()

    def enter() -> None:
        with Store(tmp_path).lock("acme"):
            entered.set()

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.wait(0.5)
        holder.kill()
        waiting.join(60)
    assert entered.is_set()
