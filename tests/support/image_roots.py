"""Images of deploy/ that were built and unpacked, and commands that run in them as their containers would.

A command sees the image's file system as a root that it cannot write, mounts on it, and a /tmp of its own. It runs as
user 10001.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USER = 10001
_PROGRAMS = ("buildah", "mmdebstrap", "unshare")
_ENTER = """set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
  source=${1%%=*} target=$root${1#*=}; shift
  if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "$(dirname "$target")"; touch "$target"; fi
  mount --bind "$source" "$target"
done
shift
mount -o remount,ro,bind "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec /usr/sbin/chroot --userspec=10001:10001 "$root" sh -c 'cd /tmp && exec "$@"' sh "$@"
"""


def require_builder() -> None:
    """Skip where no image can be built, and fail there in CI."""
    needed = [program for program in _PROGRAMS if not shutil.which(program)]
    if not needed and os.geteuid() == 0:
        return
    what = f"building an image needs root and {', '.join(needed or ['nothing else'])}"
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(what)


def unpacked(image: str, store: Path, folder: Path, *arguments: str) -> Path:
    """Build an image, and return the folder that has its file system."""
    words = [image, "--root", str(store), "--keep", str(folder), *arguments]
    subprocess.run([sys.executable, "scripts/build_images.py", *words], check=True, cwd=ROOT)
    return folder


def variables(image: str) -> dict[str, str]:
    """Return the variables that the last stage of a Dockerfile sets."""
    final = (ROOT / "deploy" / image / "Dockerfile").read_text().rpartition("FROM ")[2].replace("\\\n", " ")
    lines = re.findall(r"^ENV (.+)$", final, re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(lines)))


def started(
    root: Path, image: str, command: Sequence[str], mounts: Mapping[Path, str], given: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Start a command in an unpacked image; `mounts`: folders and files of this machine by their paths in the image."""
    pairs = [f"{source}={target}" for source, target in mounts.items()]
    words = ["unshare", "--mount", "bash", "-c", _ENTER, "bash", str(root), *pairs, "--", *command]
    environment = {**variables(image), "HOME": "/tmp", **given}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def output(
    root: Path, image: str, command: Sequence[str], mounts: Mapping[Path, str], given: Mapping[str, str]
) -> tuple[int, str]:
    """Run a command in an unpacked image to its end; its status, and what it printed."""
    with started(root, image, command, mounts, given) as process:
        printed, _ = process.communicate(timeout=900)
    return process.returncode, printed


def size(root: Path) -> int:
    """Return the bytes of the files of an unpacked image."""
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
