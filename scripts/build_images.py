"""Build the images of deploy/ with buildah, without a daemon and without a container registry; see docs/deploy.md.

    python scripts/build_images.py serving --root .citelock/images --base debian --keep .citelock/serving

`--base debian` makes a base image of Debian's own packages (mmdebstrap), for machines that reach no container registry;
any other value is an image's name, which buildah pulls. `--keep` writes the image's file system to a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ("serving", "assets", "reranker")
DEBIAN = "debian"
LOCAL_BASE = "localhost/python:3.11-debian"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "default-timeout")
"""The settings of pip that say where packages are; others, such as constraints, name files of this machine."""
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class Builder:
    """buildah with a store of its own, so that nothing of the machine's other images is touched."""

    def __init__(self, store: Path) -> None:
        self._store = store
        store.mkdir(parents=True, exist_ok=True)
        self._driver = "overlay" if self._buildah("overlay", "info").returncode == 0 else "vfs"

    def run(self, *words: str) -> str:
        """Run a command of buildah and return its output.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = self._buildah(self._driver, *words)
        if done.returncode:
            sys.stderr.write(f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}\n")
        done.check_returncode()
        return done.stdout.strip()

    def _buildah(self, driver: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run buildah with a storage driver: `overlay` shares layers, `vfs` copies them and works everywhere."""
        store = self._store / driver
        where = ["--root", str(store / "root"), "--runroot", str(store / "run"), "--storage-driver", driver]
        return subprocess.run(["buildah", *where, *words], capture_output=True, text=True, cwd=ROOT)

    def make_base(self) -> str:
        """Return the name of a base image made of Debian's packages, unless the store has it already."""
        if LOCAL_BASE not in self.run("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
            archive = self._store / "base.tar"
            if not archive.exists():
                partial = archive.with_name("partial.tar")
                mmdebstrap = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}"]
                subprocess.run([*mmdebstrap, "bookworm", str(partial)], check=True)
                partial.rename(archive)
            container = self.run("from", "scratch")
            self.run("add", container, str(archive), "/")
            self.run("commit", "--quiet", "--rm", container, LOCAL_BASE)
        return LOCAL_BASE

    def build(self, name: str, base: str, arguments: Mapping[str, str]) -> str:
        """Build one image; its name."""
        tag = f"localhost/citelock-{name}:test"
        with tempfile.TemporaryDirectory() as folder:
            options = ["--layers", "--isolation", "chroot", "--format", "docker", "--network", "host"]
            options += _registry(Path(folder))
            given = {"PYTHON_IMAGE": base, **arguments}
            options += [word for key, value in given.items() for word in ("--build-arg", f"{key}={value}")]
            file = str(ROOT / "deploy" / name / "Dockerfile")
            self.run("bud", *options, "--tag", tag, "--file", file, str(ROOT))
        return tag

    def config(self, image: str) -> dict[str, object]:
        """Return what an image says of its user, command and ports."""
        told = json.loads(self.run("inspect", "--type", "image", image))
        return dict(told["Docker"]["config"])

    def unpack(self, image: str, folder: Path) -> None:
        """Copy the file system of an image to a new folder."""
        container = self.run("from", "--pull-never", image)
        try:
            mounted = self.run("mount", container)
            subprocess.run(["cp", "--archive", mounted, str(folder)], check=True)  # devices stay devices
        finally:
            self.run("rm", container)


def _registry(folder: Path) -> list[str]:
    """Return options that show pip in the build what this machine's pip is configured with; none of it is in the image.

    Wheels that were downloaded before are read from pip's cache.
    """
    shown = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = dict(line.split("=", 1) for line in shown.stdout.splitlines())
    lines = {name.partition(".")[2].strip("."): value.strip("'") for name, value in settings.items()}
    lines = {name: value for name, value in lines.items() if name in _SOURCES}
    lines["cert"] = "/etc/pip-authorities.crt"
    lines["break-system-packages"] = "true"
    file = folder / "pip.conf"
    places = [
        Path(word.removeprefix("file://")) for value in lines.values() for word in value.replace("\\n", " ").split()
    ]
    entries = [f"{name} = " + value.replace("\\n", "\n    ") for name, value in lines.items() if name]
    file.write_text("[global]\n" + "\n".join(entries) + "\n")
    mounts = {file: "/etc/pip.conf", _BUNDLE: lines["cert"]}
    folders = {place.parent if place.name == "simple" else place for place in places if place.is_absolute()}
    mounts |= {place: str(place) for place in folders if place.is_dir()}
    cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True).stdout.strip()
    if cache and Path(cache).is_dir():
        mounts[Path(cache)] = "/root/.cache/pip"
    return [word for here, there in mounts.items() for word in ("--volume", f"{here}:{there}")]


def main(arguments: Sequence[str]) -> int:
    """Build the images that are named, and say what each takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="*", choices=[*IMAGES, []], default=list(IMAGES))
    parser.add_argument("--root", type=Path, default=ROOT / ".citelock" / "images", help="where images are kept")
    parser.add_argument("--base", default=DEBIAN, help="base image, or `debian`")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--keep", type=Path, help="write the (only) image's file system there")
    given = parser.parse_args(arguments)
    for program in ("buildah", *(["mmdebstrap"] if given.base == DEBIAN else [])):
        if not shutil.which(program):
            print(f"{program} is not installed: apt-get install {program}", file=sys.stderr)
            return 2
    if os.geteuid() != 0:
        print("building without a daemon needs root (`sudo`), or use docker build (docs/deploy.md)", file=sys.stderr)
        return 2
    builder = Builder(given.root)
    base = builder.make_base() if given.base == DEBIAN else given.base
    for name in given.images:
        image = builder.build(name, base, dict(each.split("=", 1) for each in given.build_arg))
        print(f"{name}: {image}")
        if given.keep:
            builder.unpack(image, given.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
