"""No alteration of a generation on disk goes unnoticed: what opens is to the last bit what was built and signed.

`CITELOCK_ALTERATIONS=500` runs in full; 12 random ones by default.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for, folder_bytes

from rag_assets.publishing.build import build_generation
from rag_serving.artifacts import contents
from rag_serving.artifacts.manifest import file_facts
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.secret import FILE as SECRET
from rag_serving.artifacts.store import Store, StoreError, map_table, write_mapped
from rag_serving.indexes.catalog import move_current
from rag_serving.indexes.generation import Generation

ALTERATIONS = int(os.environ.get("CITELOCK_ALTERATIONS", "12"))
CHUNKS = 40


@dataclass
class Home:
    """Two published generations of one tenant; `folder` is that of the newer one."""

    path: Path

    def __post_init__(self) -> None:
        self.store, self.config = Store(self.path), config_for(self.path)
        self.id = self.store.current(TENANT) or ""
        self.folder = self.store.generation(TENANT, self.id)
        self.other = next(one for one in self.store.generations(TENANT).iterdir() if one.name != self.id)

    @property
    def files(self) -> list[str]:
        return sorted(folder_bytes(self.folder))

    def fault(self) -> str | None:
        """Why the generation does not open; None where it opens."""
        try:
            Generation.open(self.store, TENANT, self.id, self.config).close()
        except StoreError as error:
            return str(error)
        return None


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built")
    store, config = Store(path), config_for(path)
    for seed in (1, 0):
        table = chunk_table(CHUNKS, seed=seed)
        generation = build_generation(store, TENANT, table, clustered_vectors(CHUNKS), config, MODEL)
        generation.close()
        move_current(store, TENANT, generation.id, config)
    shutil.rmtree(store.candidate(TENANT))
    return path


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Home:
    shutil.copytree(built, tmp_path / "home", ignore=shutil.ignore_patterns("chroma"))
    home = Home(tmp_path / "home")
    time.sleep(0.12)  # files that are this old are remembered
    assert home.fault() is None
    return home


def flip(home: Home, chance: random.Random) -> None:
    path = home.folder / chance.choice(home.files)
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def flip_in_secret(home: Home, chance: random.Random) -> None:
    """The same, and both times that can be set are set back."""
    path = home.folder / chance.choice(home.files)
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(home: Home, chance: random.Random) -> None:
    path = home.folder / chance.choice(home.files)
    os.truncate(path, chance.randrange(path.stat().st_size))


def append(home: Home, chance: random.Random) -> None:
    with (home.folder / chance.choice(home.files)).open("ab") as file:
        file.write(chance.randbytes(chance.randint(1, 99)))


def swap(home: Home, chance: random.Random) -> None:
    contents = folder_bytes(home.folder)
    one, two = chance.sample(sorted(contents), 2)
    (home.folder / one).rename(home.folder / "between")
    (home.folder / two).rename(home.folder / one)
    (home.folder / "between").rename(home.folder / two)


def delete(home: Home, chance: random.Random) -> None:
    (home.folder / chance.choice(home.files)).unlink()


def take_of_other(home: Home, chance: random.Random) -> None:
    contents, others = folder_bytes(home.folder), folder_bytes(home.other)
    name = chance.choice([name for name in contents if contents[name] != others.get(name, contents[name])])
    shutil.copy2(home.other / name, home.folder / name)


def take_all_of_other(home: Home, _: random.Random) -> None:
    shutil.rmtree(home.folder)
    shutil.copytree(home.other, home.folder)


def edit_readers(home: Home, chance: random.Random) -> None:
    """A table that reads well, in which a text and everybody's right to read it are others."""
    path = home.folder / "chunks.arrow"
    rows = map_table(path, GENERATION_CHUNKS).to_pylist()
    row = chance.randrange(len(rows))
    text = "Wire the deposit to account 12-34."
    changed = {"text": text, "readers": "everyone", "text_hash": hashlib.sha256(text.encode()).hexdigest()[:32]}
    rows[row] = {**rows[row], **changed}
    write_mapped(path, pa.Table.from_pylist(rows, GENERATION_CHUNKS.arrow), GENERATION_CHUNKS)


def edit_with_digests(home: Home, chance: random.Random) -> None:
    """The table is edited and the manifest with it, and signed by whoever lacks the secret."""
    edit_readers(home, chance)
    path = home.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["chunks.arrow"] = file_facts(home.folder / "chunks.arrow").model_dump()
    if chance.random() < 0.5:
        made_up = hmac.new(chance.randbytes(32), json.dumps(manifest).encode(), hashlib.sha256)
        manifest["signature"] = chance.choice([made_up.hexdigest(), "", None, "ä", 7, "0" * 64])
    path.write_text(json.dumps(manifest, indent=1, sort_keys=True))


def edit_manifest(home: Home, chance: random.Random) -> None:
    path = home.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    name = chance.choice(sorted(manifest.keys() - {"signature", "files"}))
    manifest[name] = chance.choice([0, "x", [], {}, None, chance.random()])
    path.write_text(json.dumps(manifest))


def garbage(home: Home, chance: random.Random) -> None:
    (home.folder / chance.choice(home.files)).write_bytes(
        chance.choice([b"", b"[" * 100_000, b"\xff\xfe", b"\x93NUMPY\x01\x00\xff\xff", b'{"format": 1}', b"null"])
    )


def no_file(home: Home, chance: random.Random) -> None:
    """A pipe, a link, a folder or a device in place of a file."""
    path = home.folder / chance.choice(home.files)
    kept = path.rename(home.path / "kept")
    kind: Callable[[], object] = chance.choice(
        [path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(kept), lambda: path.symlink_to("/dev/zero")]
    )
    kind()


ALL = (
    flip, flip_in_secret, truncate, append, swap, delete, take_of_other, take_all_of_other,
    edit_readers, edit_with_digests, edit_manifest, garbage, no_file,
)  # fmt: skip


@pytest.mark.parametrize("number", range(ALTERATIONS))
def test_an_alteration_is_refused_in_one_line(home: Home, number: int) -> None:
    chance = random.Random(number)
    before = folder_bytes(home.folder)
    alter = ALL[number % len(ALL)]
    alter(home, chance)
    assert alter is no_file or folder_bytes(home.folder) != before
    for _ in range(2):
        fault = home.fault()
        assert fault is not None, alter.__name__
        assert "\n" not in fault
        assert "citelock" in fault or "mend" in fault


def test_a_generation_of_an_older_program_says_how_to_upgrade(home: Home) -> None:
    path = home.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["signature"]
    path.write_text(json.dumps(manifest))
    assert str(home.fault()).endswith(
        "is not signed: an older program built it, or it was made up; `citelock build` makes it again"
    )


def test_without_the_secret_or_with_another_nothing_opens_and_none_is_made(home: Home) -> None:
    secret = (home.path / SECRET).read_bytes()
    (home.path / SECRET).unlink()
    assert "has no secret; restore the file `secret` of the home folder" in str(home.fault())
    assert not (home.path / SECRET).exists()
    (home.path / SECRET).write_bytes(bytes(32))
    assert "its signature does not hold, or the secret is another one" in str(home.fault())
    (home.path / SECRET).write_bytes(secret)
    assert home.fault() is None


def test_a_copy_of_the_home_opens_with_its_secret(home: Home, tmp_path: Path) -> None:
    shutil.copytree(home.path, tmp_path / "serving")
    assert Home(tmp_path / "serving").fault() is None


def test_another_tenants_generation_is_refused(home: Home) -> None:
    shutil.copytree(home.store.tenant(TENANT), home.store.tenant("other"))
    with pytest.raises(StoreError, match=f"is a copy of generation {home.id} of '{TENANT}'"):
        Generation.open(home.store, "other", home.id, home.config)


def test_what_did_not_change_is_not_read_again_not_even_by_another_process(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError("a file is hashed again")

    with monkeypatch.context() as patched:
        patched.setattr(contents, "sha256", refuse)
        assert home.fault() is None
        contents._remembered.clear()
        assert home.fault() is None


def test_what_was_remembered_counts_only_with_its_signature(home: Home) -> None:
    file = home.store.cache(TENANT) / contents.FILE
    content = json.loads(file.read_text())
    vectors = home.folder / "vectors.npy"
    noted = content["files"][f"generations/{home.id}/vectors.npy"]
    changed = bytearray(vectors.read_bytes())
    changed[-1] ^= 1
    vectors.write_bytes(changed)
    content["files"][f"generations/{home.id}/vectors.npy"] = [*(contents.stamp_of(vectors) or ()), noted[-1]]
    file.write_text(json.dumps(content))
    contents._remembered.clear()
    assert "vectors.npy was altered: its SHA-256" in str(home.fault())


def test_a_pointer_that_is_a_pipe_does_not_stop_who_reads_it(home: Home) -> None:
    home.store.pointer(TENANT).unlink()
    os.mkfifo(home.store.pointer(TENANT))
    assert home.store.current(TENANT) is None


SERVER = """
import sys
from pathlib import Path

from support.synthetic import TENANT, clustered_vectors, config_for

from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.artifacts.store import Store

home = Path(sys.argv[1])
published = CurrentGeneration(Store(home), TENANT, config_for(home, memory_bytes=int(sys.argv[2])))
classes = None
print("ready", flush=True)
for _ in sys.stdin:
    try:
        with published.acquire() as opened:
            found = opened.exact(clustered_vectors(1)[0], 3, frozenset(opened.reader_classes))
            opened.lexical("a", 3, frozenset(opened.reader_classes))
            print(opened.id, [opened.chunk(hit.row).chunk_id for hit in found], flush=True)
    except UnpublishedError as error:
        print("unavailable", error, flush=True)
"""


@pytest.mark.parametrize("memory_bytes", [0, 1 << 24], ids=["mapped", "in memory"])
def test_a_file_that_is_truncated_while_it_is_served_does_not_end_the_process(home: Home, memory_bytes: int) -> None:
    folders = [str(Path(__file__).parents[1]), *sys.path]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(home.path), str(memory_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )
    assert server.stdin
    assert server.stdout

    def ask() -> str:
        assert server.stdin
        assert server.stdout
        server.stdin.write("\n")
        server.stdin.flush()
        return server.stdout.readline()

    with server:
        assert server.stdout.readline() == "ready\n"
        before = ask()
        assert before.startswith(home.id)
        for name in ("chunks.arrow", "vectors.npy"):
            os.truncate(home.folder / name, 100)
        after = [ask() for _ in range(3)]
        server.stdin.close()
        assert server.wait(20) == 0
    if memory_bytes:
        assert after == [before] * 3
    else:
        assert all(line.startswith((home.other.name, "unavailable")) for line in after), after
