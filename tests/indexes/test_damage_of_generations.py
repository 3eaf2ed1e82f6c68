"""A damaged generation is named part by part, restored to the last bit where that is possible, else built again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from numpy.typing import NDArray
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for, folder_bytes
from typer.testing import CliRunner

from rag_assets.publishing.build import build_generation
from rag_assets.publishing.repair import repair
from rag_assets.publishing.shard_writer import ShardWriter
from rag_assets.state.content_cache import SEAL_PURPOSE, VectorCache, vector_key
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.cli.main import app
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import move_current
from rag_serving.indexes.chroma import ShardCollections, close_clients
from rag_serving.indexes.generation import Generation, place_of
from rag_serving.indexes.integrity import MARK, find_damage

CHUNKS = 60


class Fixed:
    """An embedder of known vectors, which a cache can remember."""

    name, dimension = MODEL, 32

    def embed_documents(self, texts: list[str]) -> NDArray[np.float32]:
        return clustered_vectors(CHUNKS)[[int(text) for text in texts]]


@dataclass
class Home:
    """One published generation of a tenant, with the cache that its vectors came from."""

    folder: Path
    config: Config
    store: Store
    id: str

    @property
    def generation(self) -> Path:
        return self.store.generation(TENANT, self.id)

    @property
    def chroma(self) -> Path:
        return self.store.chroma(TENANT)

    def build(self) -> str:
        """The publish job's part: the same inputs again."""
        table = chunk_table(CHUNKS, readers=("everyone", "group:ops"))
        keys = [vector_key(MODEL, str(row)) for row in range(CHUNKS)]
        at = table.column_names.index("vector_keys")
        table = table.set_column(at, table.schema.field(at), pa.array([[key] for key in keys]))
        built = build_generation(self.store, TENANT, table, clustered_vectors(CHUNKS), self.config, MODEL)
        built.close()
        move_current(self.store, TENANT, built.id, self.config)
        return built.id

    def damage(self, depth: str = "digests") -> list[str]:
        current = self.store.current(TENANT) or ""
        return [str(one) for one in find_damage(self.store, TENANT, current, self.config, depth)]  # type: ignore[arg-type]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        file = self.folder / "app.yaml"
        file.write_text(yaml.safe_dump({"home": str(self.folder), "tenants": {TENANT: {}}}))
        result = CliRunner().invoke(app, ["generations", *arguments, "--config", str(file)])
        return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that is built once; tests take copies."""
    folder = tmp_path_factory.mktemp("home")
    home = Home(folder, config_for(folder, max_shard_chunks=40), Store(folder), "")
    home.build()
    cache = VectorCache(home.store.cache(TENANT), MODEL, Seal(folder, SEAL_PURPOSE))
    cache.embed(Fixed(), [str(row) for row in range(CHUNKS)])  # type: ignore[arg-type]
    shutil.rmtree(home.store.candidate(TENANT))  # its files are those of the generation
    close_clients()
    return folder


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Home:
    folder = tmp_path / "home"
    shutil.copytree(built, folder)
    store = Store(folder)
    return Home(folder, config_for(folder, max_shard_chunks=40), store, store.current(TENANT) or "")


def flip(file: Path, at: float = 0.5) -> None:
    content = bytearray(file.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


FILES = (
    "chunks.arrow",
    "chunks.parquet",
    "codes.npy",
    "codes-facts.npy",
    "page_readers.parquet",
    "vectors.npy",
    "lexical/vocab.index.json",
    "lexical/counts.npy",
)
HOW: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "delete": Path.unlink}
CASES = [*((name, "flip") for name in FILES), ("vectors.npy", "cut"), ("chunks.arrow", "delete")]


def test_a_whole_generation_is_whole_and_nothing_is_written(home: Home) -> None:
    before = folder_bytes(home.generation)
    code, out, err = home.run("verify")
    assert (code, err) == (0, "")
    assert f"generation {home.id} is whole: {len(before) - 1} files" in out
    assert "60 chunks" in out
    assert home.run("repair")[:2] == (0, f"{TENANT}: generation {home.id} is whole, nothing was damaged\n")
    assert folder_bytes(home.generation) == before


@pytest.mark.parametrize(("name", "how"), CASES)
def test_a_damaged_file_is_named_and_restored_to_the_last_bit(home: Home, name: str, how: str) -> None:
    before = folder_bytes(home.generation)
    HOW[how](home.generation / name)
    code, _, err = home.run("verify")
    assert code == 1
    assert f"generations/{home.id}/{name} " in err
    assert bool(home.damage("sizes")) == (how != "flip")
    code, out, err = home.run("repair")
    assert (code, err) == (0, "")
    assert f"restored {name}" in out
    assert folder_bytes(home.generation) == before
    assert home.damage() == []


def test_a_flipped_bit_in_any_file_is_found(home: Home) -> None:
    names = [name for name in folder_bytes(home.generation) if name != "manifest.json"]
    for name in names:
        flip(home.generation / name, 0.9)
    found = home.damage()
    assert len(found) == len(names)
    assert all("was altered: its SHA-256" in line for line in found)


def test_many_files_at_once_are_restored_from_the_one_that_is_left(home: Home) -> None:
    before = folder_bytes(home.generation)
    for name in before.keys() - {"manifest.json", "chunks.parquet"}:
        (home.generation / name).unlink()
    shutil.rmtree(home.chroma)
    assert home.run("repair")[0] == 0
    assert folder_bytes(home.generation) == before
    assert home.damage() == []


def test_what_cannot_be_restored_is_named_and_the_next_build_makes_it_again(home: Home) -> None:
    before = folder_bytes(home.generation)
    for name in ("chunks.arrow", "chunks.parquet"):
        flip(home.generation / name)
    assert home.damage("sizes") == [], "a flipped bit does not show in sizes"
    assert len(home.damage("opens")) == 1
    code, out, err = home.run("repair", "--json")
    assert code == 1
    assert [one["part"] for one in json.loads(out)["damage"]] == [
        f"generations/{home.id}/chunks.arrow",
        f"generations/{home.id}/chunks.parquet",
    ]
    assert "`citelock build` makes it again" in err
    assert len(home.damage("sizes")) == 2, "what was found is left for the build"
    assert home.build() == home.id
    assert home.damage() == home.damage("sizes") == []
    assert not (home.generation / MARK).exists()
    assert folder_bytes(home.generation).keys() == before.keys()


def altered(file: Path) -> None:
    file.write_text(file.read_text().replace(f'"chunks": {CHUNKS}', f'"chunks": {CHUNKS + 1}', 1))


MANIFEST: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (Path.unlink, "does not exist"),
    "cut": (cut, "is not valid JSON"),
    "emptied": (lambda file: file.write_text("{}"), "has format None"),
    "another": (lambda file: file.write_text('{"format": 1}'), "is not signed"),
    "altered": (altered, "was altered"),
}


@pytest.mark.parametrize("how", MANIFEST)
def test_a_damaged_manifest_is_named_and_the_same_generation_is_built_again(home: Home, how: str) -> None:
    spoil, told = MANIFEST[how]
    spoil(home.generation / "manifest.json")
    code, _, err = home.run("verify")
    assert code == 1
    assert f"generations/{home.id}/manifest.json {told}" in err
    assert home.damage("sizes")
    assert home.run("repair")[0] == 1
    assert home.build() == home.id
    assert home.damage() == []


def test_a_pointer_to_a_generation_that_is_gone_is_named_and_built_again(home: Home) -> None:
    shutil.rmtree(home.generation)
    code, _, err = home.run("verify")
    assert (code, f"generations/{home.id} is missing" in err) == (1, True)
    assert home.damage("sizes")
    assert home.run("repair")[0] == 1
    assert not home.generation.exists()
    assert home.build() == home.id
    assert home.damage() == []


def test_a_pointer_of_rubbish_is_named(home: Home) -> None:
    home.store.pointer(TENANT).write_bytes(b"\xff\xfe/../..")
    code, _, err = home.run("verify")
    assert (code, err.count("\n"), "Traceback" in err) == (1, 2, False)
    assert home.build() == home.id


def graph_file(home: Home, name: str = "data_level0.bin") -> Path:
    return sorted(home.chroma.glob(f"*/{name}"))[0]


def without_a_collection(home: Home) -> None:
    name = Generation.open(home.store, TENANT, home.id, home.config).manifest.shards[0].collection
    ShardCollections.open(place_of(home.store, TENANT, home.config)).client.delete_collection(name)
    close_clients()


def with_other_readers(home: Home) -> None:
    name = Generation.open(home.store, TENANT, home.id, home.config).manifest.shards[0].collection
    collection = ShardCollections.open(place_of(home.store, TENANT, home.config)).get(name)
    assert collection is not None
    first = collection.get(limit=1)["ids"]
    collection.update(ids=first, metadatas=[{"readers": "group:everybody"}])
    close_clients()


CHROMA: dict[str, tuple[Callable[[Home], object], str]] = {
    "graph cut": (lambda home: cut(graph_file(home)), "bytes instead of"),
    "graph flipped": (lambda home: flip(graph_file(home)), "was altered"),
    "graph deleted": (lambda home: shutil.rmtree(graph_file(home).parent), "is missing"),
    "pickle flipped": (lambda home: flip(graph_file(home, "index_metadata.pickle")), "was altered"),
    "database of rubbish": (lambda home: (home.chroma / "chroma.sqlite3").write_bytes(b"x" * 9000), "is damaged"),
    "database cut": (lambda home: cut(home.chroma / "chroma.sqlite3"), "is damaged"),
    "database deleted": (lambda home: (home.chroma / "chroma.sqlite3").unlink(), "is missing"),
    "folder deleted": (lambda home: shutil.rmtree(home.chroma), "is missing"),
    "collection deleted": (without_a_collection, "is missing"),
    "other readers": (with_other_readers, "has other readers for 1 of"),
}


@pytest.mark.parametrize("how", CHROMA)
def test_a_damaged_shard_is_named_and_restored_under_its_name(home: Home, how: str) -> None:
    spoil, told = CHROMA[how]
    before = folder_bytes(home.generation)
    spoil(home)
    found = home.damage()
    assert found
    assert told in found[0]
    code, out, err = home.run("repair")
    assert (code, err) == (0, "")
    assert "restored shard-" in out
    assert home.damage() == []
    assert folder_bytes(home.generation) == before
    generation = Generation.open(home.store, TENANT, home.id, home.config)
    assert generation.approximate(generation.vectors([3])[0], 1)[0].score > 0.999
    generation.close()


@pytest.mark.parametrize("how", ["graph cut", "graph flipped", "database cut", "folder deleted"])
def test_a_build_makes_a_damaged_shard_again(home: Home, how: str) -> None:
    CHROMA[how][0](home)
    assert bool(home.damage("sizes")) == (how != "graph flipped")
    home.build()
    assert home.damage() == []


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_small_shard_is_whole_however_often_it_was_opened(tmp_path: Path, size: int) -> None:
    home = Home(tmp_path, config_for(tmp_path), Store(tmp_path), "")
    vectors = clustered_vectors(size)
    generation = build_generation(home.store, TENANT, chunk_table(size), vectors, home.config, MODEL)
    move_current(home.store, TENANT, generation.id, home.config)
    for _ in range(2):
        assert generation.approximate(vectors[0], 1)[0].score > 0.999
        generation.close()
        close_clients()
        assert home.damage() == []
        generation = Generation.open(home.store, TENANT, generation.id, home.config)
    generation.close()


def test_a_shard_whose_graph_was_altered_is_not_shown_to_chroma(home: Home) -> None:
    cut(graph_file(home))
    config = config_for(home.folder, dense_search="chroma")
    generation = Generation.open(home.store, TENANT, home.id, config)
    vector = generation.vectors([3])[0]
    assert generation.dense(vector, 1, frozenset({"everyone", "group:ops"}))[0].score > 0.999
    assert "is damaged" in generation.degraded[0]
    generation.close()


def test_graphs_of_collections_that_are_removed_leave_no_files(home: Home) -> None:
    collections = ShardWriter.open(place_of(home.store, TENANT, home.config))
    assert len(collections.remove_unnamed(frozenset())) == 2
    assert [path.name for path in home.chroma.iterdir() if path.is_dir()] == ["shard-files"]


def test_a_generation_that_is_not_there_is_refused(home: Home) -> None:
    for name in ("0123456789abcdef", "../../generations", ""):
        code, _, err = home.run("repair", name)
        assert (code, err.count("\n")) == (1, 1)
        assert "generations list" in err
    assert not list(home.folder.rglob(MARK))


def test_an_older_generation_is_verified_and_repaired_by_its_id(home: Home) -> None:
    older = home.id
    table = chunk_table(12)
    newer = build_generation(home.store, TENANT, table, clustered_vectors(12), home.config, MODEL)
    newer.close()
    move_current(home.store, TENANT, newer.id, home.config)
    (home.generation / "codes.npy").unlink()
    assert home.run("verify")[0] == 0
    assert home.run("verify", older)[0] == 1
    assert home.run("repair", older)[0] == 0
    assert home.run("verify", older)[0] == 0


def test_a_copy_in_the_last_build_serves(home: Home) -> None:
    shutil.rmtree(home.store.cache(TENANT))
    kept = home.store.candidate(TENANT) / "dense"
    kept.mkdir(parents=True)
    shutil.copyfile(home.generation / "vectors.npy", kept / "vectors.npy")
    (home.generation / "vectors.npy").unlink()
    done = repair(home.store, TENANT, home.id, home.config)
    assert (done.restored, done.left) == (("vectors.npy",), ())


def test_an_error_of_opening_says_how_to_mend_it(home: Home) -> None:
    cut(home.generation / "vectors.npy")
    with pytest.raises(StoreError, match="`citelock generations repair --tenant acme` restores it"):
        Generation.open(home.store, TENANT, home.id, home.config)
