"""Lock the versions and digests of every package that an installation needs: `make lock` writes requirements/*.txt.

Each file names the file it rests on (`-r base.txt`) and what its extra adds, for all supported platforms and Pythons.
`--check` compares the files with pyproject.toml and opens no connection; `--upgrade [PACKAGE …]` moves versions.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PLUGINS = ROOT / "plugins"
FOLDER = ROOT / "requirements"
HEADER = "# Made by `make lock`; do not edit.\n"
BASE, TEST, TORCH, TORCH_CPU, LOCK = "base", "test", "torch", "torch-cpu", "lock"
NIGHTLY = "nightly"
WEIGHTS = ("weights", "model", "helm")

_BLOCK = re.compile(r"^(?!#|-)\S.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_PIN = re.compile(r"([\w.-]+)==(\S+)(?: ; (.+))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")
_OURS = re.compile(r"citelock\b")
_PLUGIN = re.compile(r"citelock-([a-z]+)(?:\[([a-z]+)\])?")
_NAME = re.compile(r"[\w.-]+")
_EVERYWHERE = " ; python_full_version < '3.13' and (sys_platform == 'darwin' or sys_platform == 'linux')"
"""What uv says of a package that every environment of pyproject.toml needs."""
_WITH_TORCH = re.compile(r"(torch|triton|nvidia-.+|cuda-.+)==")


def project() -> dict[str, Any]:
    """Return the tables of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def extras(tables: dict[str, Any]) -> dict[str, list[str]]:
    """Return the requirements that each file has to hold itself, `base` among them; those of an extra that installs a
    plug-in are the plug-in's."""
    optional = tables["project"]["optional-dependencies"]
    own = {name: [each for line in lines for each in _of_others(line)] for name, lines in optional.items()}
    return {BASE: tables["project"]["dependencies"] + tables["build-system"]["requires"], **own}


def _of_others(line: str) -> list[str]:
    """Return a requirement; in place of a plug-in, what that requires of others, with its extra."""
    if not _OURS.match(line):
        return [line]
    plugin = _PLUGIN.fullmatch(line)
    if plugin is None:
        return []
    own = tomllib.loads((PLUGINS / plugin[1] / "pyproject.toml").read_text())["project"]
    needed = [*own["dependencies"], *own.get("optional-dependencies", {}).get(plugin[2], ())]
    return [each for each in needed if not _OURS.match(each)]


def parents(name: str, every: Iterable[str]) -> list[str]:
    """Return the files that a file rests on: all others for `test`, but what is for the night; else the serving
    package's."""
    if name == BASE:
        return []
    return sorted(set(every) - {BASE, TEST, NIGHTLY}) if name == TEST else [BASE]


def blocks(text: str) -> dict[str, str]:
    """Return what a locked file says of each package, by its name and version."""
    return {found[0].split()[0]: found[0] for found in _BLOCK.finditer(text)}


def faults(tables: dict[str, Any], folder: Path = FOLDER) -> Iterator[str]:
    """Yield what is wrong with the locked files, a line each."""
    wanted = extras(tables)
    files = {name: folder / f"{name}.txt" for name in (*wanted, TORCH, TORCH_CPU, LOCK)}
    if missing := [path.name for path in files.values() if not path.exists()]:
        yield f"{', '.join(missing)}: missing"
        return
    pins = {name: list(_pins(path)) for name, path in files.items()}
    for name, found in pins.items():
        yield from (f"{name}.txt: no version with digests: {line}" for line, version in found if not version)
    for name, lines in wanted.items():
        reached = (name, *parents(name, wanted), BASE, TORCH)
        versions = dict(pin for each in reached for pin in pins[each])
        yield from (f"{name}.txt: {fault}" for line in lines if (fault := _unmet(Requirement(line), versions)))
    cuda, cpu = (dict(pins[each]).get("torch", "") for each in (TORCH, TORCH_CPU))
    if cpu.partition("+")[0] != cuda:
        yield f"{TORCH_CPU}.txt: torch {cpu} is another version than {TORCH}.txt's {cuda}"


def _pins(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each package's name and version; where it has no digests, its line and no version."""
    for block in blocks(path.read_text()).values():
        pin = _PIN.fullmatch(block)
        yield (canonicalize_name(pin[1]), pin[2]) if pin else (block.splitlines()[0], "")


def _unmet(requirement: Requirement, versions: dict[str, str]) -> str | None:
    version = versions.get(canonicalize_name(requirement.name))
    if version is None:
        return f"{requirement.name} is not in it"
    met = requirement.specifier.contains(version, prereleases=True)
    return None if met else f"{requirement.name} is {version}, and pyproject.toml asks for {requirement.specifier}"


def lock(tables: dict[str, Any], upgrade: Sequence[str]) -> None:
    """Write the locked files."""
    wanted = extras(tables)
    known = _pinned(path.read_text() for path in FOLDER.glob("*.txt") if path.stem not in (TORCH_CPU, *WEIGHTS))
    everything = [line for lines in wanted.values() for line in lines]
    whole = blocks(_resolved(everything, known, ["--generate-hashes", *upgrade]))
    pins = _pinned(whole.values())
    reached = {name: set(blocks(_resolved(lines, pins))) for name, lines in wanted.items()}
    locked: dict[str, str] = {}
    for name in wanted:
        files = parents(name, wanted)
        held = set().union(*(reached[each] for each in (*files, BASE) if each != name))
        own = [whole[pin] for pin in sorted(reached[name] - held) if not _WITH_TORCH.match(pin)]
        locked[name] = "".join(f"-r {each}.txt\n" for each in files) + "".join(own)
    locked[TORCH] = "".join(block for pin, block in whole.items() if _WITH_TORCH.match(pin))
    locked[LOCK] = _resolved(["packaging", "uv"], known, ["--generate-hashes", *upgrade])
    for name, content in locked.items():
        (FOLDER / f"{name}.txt").write_text(HEADER + content)


def _pinned(texts: Iterable[str]) -> str:
    return "".join(f"{pin}\n" for pin in sorted({pin for text in texts for pin in blocks(text)}))


def _resolved(requirements: Sequence[str], known: str, options: Sequence[str] = ()) -> str:
    """Return what uv locks for all environments of pyproject.toml; versions stay as they are `known`."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder, "wanted.in"), Path(folder, "locked.txt")
        wanted.write_text("\n".join(requirements))
        found.write_text(known)
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "compile", str(wanted), "--output-file", str(found), "--universal", "--quiet"]
        settings = ["--python-version", "3.11", "--no-header", "--no-annotate", *options]
        subprocess.run([*command, *settings], check=True, cwd=ROOT, env=_environment())
        return found.read_text().replace(_EVERYWHERE, "")


def _environment() -> dict[str, str]:
    """Return the environment in which uv asks the registry that pip is configured with."""
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = os.environ.get("PIP_INDEX_URL") or subprocess.run(pip, capture_output=True, text=True).stdout.strip()
    return {"UV_SYSTEM_CERTS": "1", **({"UV_DEFAULT_INDEX": index} if index else {}), **os.environ}


def main(arguments: Sequence[str]) -> int:
    """Write the locked files, or with `--check` print what is wrong with them."""
    if "--check" in arguments:
        found = list(faults(project()))
        for fault in found:
            print(f"requirements/{fault}; run `make lock`", file=sys.stderr)
        return 1 if found else 0
    named = [
        part for name in arguments if _NAME.fullmatch(name) and name[0] != "-" for part in ("--upgrade-package", name)
    ]
    lock(project(), named or [name for name in arguments if name == "--upgrade"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
