"""Time the first minute: a wheel installed into an empty environment, the first and the second answer over a folder.

`make dist`, then `python scripts/first_minute.py dist FOLDER "How often is there a new release?"`.
Prints each command with its seconds by the clock and of the processor, and megabytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path


def timed(*command: str | Path) -> str:
    """Run a command and print it with its seconds; returns what it printed. The first output is timed, too."""
    began, before = time.monotonic(), os.times()
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        answered = time.monotonic() - began
        text = first + process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    shown = " ".join(each.name if isinstance(each, Path) else each for each in command)
    first_told = f"first line after {answered:.1f} s, " if first else ""
    print(f"$ {shown}\n  {first_told}all in {time.monotonic() - began:.1f} s; processor: {processor:.1f} s", flush=True)
    return text


def megabytes(folder: Path) -> float:
    """Return what the files of a folder take."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main(dist: str, docs: str, question: str) -> None:
    """Install, ask twice and print what it took."""
    (wheel,) = Path(dist).glob("citelock-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        home, folder = Path(scratch, "venv"), Path(scratch, Path(docs).resolve().name)
        venv.create(home, with_pip=False)
        shutil.copytree(docs, folder, ignore=shutil.ignore_patterns(".citelock"))
        timed(Path(sys.executable), "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet", wheel)
        packages = len([*home.glob("lib/*/site-packages/*.dist-info")])
        pages = sum(path.is_file() for path in folder.rglob("*"))
        print(f"  {packages} packages, {megabytes(home):.0f} MB; the folder: {pages} files, {megabytes(folder):.1f} MB")
        command = home / "bin" / "citelock", "ask", "--docs", folder, question
        timed(*command)
        print(timed(*command))
        print(f"  its index: {megabytes(folder / '.citelock'):.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
