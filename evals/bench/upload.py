"""`python -m evals.bench.upload`: seconds from `POST /v1/documents` until a search finds the document.

Belongs here: an installation as `make up` starts it, with homes of its own, and the stages that a document is shown to
go through. Does not belong here: how fast files are read (`pdf`, `office`, `ocr`).

Processor seconds are those of all processes of the installation while the document was on its way, whatever else the
machine does; the load average is of the whole machine. Memory is resident memory by kind of process; `most` is the peak
since the process was started, so that what an upload took shows after it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from evals.bench.machine import load, machine

ROOT = Path(__file__).parents[2]
TOKEN = "editor"
_EVERY_S = 0.05
_START_S, _FOUND_S = 300.0, 300.0
_TICKS = os.sysconf("SC_CLK_TCK")
_DOCUMENT = """# Note {number}

The {word} valve of line {number} is turned by hand, a quarter of a turn at a time, and never while the line is hot.

## Replacing it

Replace the {word} valve every {hours} hours of operation, and write the hour into the book of line {number}.
"""
_WORDS = [
    "amber",
    "birch",
    "cobalt",
    "damson",
    "ember",
    "fennel",
    "garnet",
    "hazel",
    "indigo",
    "juniper",
    "kelp",
    "lilac",
]


@dataclass
class TimedUpload:
    """The progress of one document: seconds after it was sent, by stage, and the processes' usage meanwhile."""

    number: int
    stages: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    load: float = 0.0

    def payload(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        shown = {name: round(seconds, 2) for name, seconds in self.stages.items()}
        used = {name: round(seconds, 2) for name, seconds in sorted(self.cpu.items()) if seconds >= 0.05}
        return {"number": self.number, "seconds": shown, "cpu_seconds": used, "load": self.load}


class UploadInstallation:
    """Dagster and the API, started by `scripts/up.py` over an inbox beside the sample wiki."""

    def __init__(self, folder: Path, is_built: bool) -> None:
        self._folder = folder
        home = folder / "dagster_home"
        home.mkdir()
        shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
        usual = yaml.safe_load((ROOT / "config" / "app.yaml").read_text(encoding="utf-8"))
        usual["sources"] = {**(usual["sources"] if is_built else {}), "uploads": {"kind": "files", "tenant": "demo"}}
        for source in usual["sources"].values():
            source.pop("schedule", None)
        usual |= {"home": str(folder / "home"), "serving": {"auth": "tokens"}}
        (folder / "app.yaml").write_text(yaml.safe_dump(usual), encoding="utf-8")
        self.port = _free_port()
        tokens = {TOKEN: {"tenant": "demo", "user": "ann", "roles": ["reader", "editor"]}}
        self.environment = {
            **os.environ,
            "DAGSTER_HOME": str(home),
            "CITELOCK_CONFIG": str(folder / "app.yaml"),
            "CITELOCK_TOKENS": json.dumps(tokens),
            "DAGSTER_PORT": str(_free_port()),
            "CITELOCK_SERVING__PORT": str(self.port),
        }
        if is_built:
            command = [sys.executable, "-c", "from rag_serving.cli.main import main; main()", "build"]
            subprocess.run(command, cwd=ROOT, env=self.environment, check=True, stdout=subprocess.DEVNULL)

    @contextmanager
    def running(self) -> Iterator[httpx.Client]:
        """Yield a client of the API once everything is up."""
        with (self._folder / "up.log").open("w", encoding="utf-8") as log:
            up = subprocess.Popen(
                [sys.executable, "scripts/up.py"], cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )
            try:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60) as client:
                    self._await(client)
                    yield client
            finally:
                up.send_signal(signal.SIGINT)
                up.wait(60)

    def cpu(self) -> dict[str, float]:
        """Return the processor seconds that each kind of process has used since it was started, with its children."""
        used: dict[str, float] = {}
        for kind, process in self._processes():
            with suppress(OSError, IndexError):
                ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:15]  # with children that ended
                used[kind] = used.get(kind, 0.0) + sum(map(int, ticks)) / _TICKS
        return used

    def memory(self) -> dict[str, dict[str, int]]:
        """Return the resident memory of each kind of process, and the most that it ever was, in MB."""
        used: dict[str, dict[str, int]] = {}
        for kind, process in self._processes():
            with suppress(OSError):
                status = (process / "status").read_text()
                for name, label in (("now", "VmRSS"), ("most", "VmHWM")):
                    if found := re.search(rf"^{label}:\s+(\d+) kB$", status, re.MULTILINE):
                        of_kind = used.setdefault(kind, {})
                        of_kind[name] = of_kind.get(name, 0) + int(found[1]) // 1024
        return used

    def _processes(self) -> Iterator[tuple[str, Path]]:
        """Yield the kind of each process of the installation, and its folder below /proc."""
        mark = f"DAGSTER_HOME={self.environment['DAGSTER_HOME']}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    yield _kind(command), process

    def _await(self, client: httpx.Client) -> None:
        """Wait until the API answers, Dagster's daemon has ticked, and nothing uses the processor much any more."""
        deadline = time.monotonic() + _START_S
        dagster = f"http://127.0.0.1:{self.environment['DAGSTER_PORT']}/server_info"
        for url in ("/healthz", dagster):
            while time.monotonic() < deadline:
                with suppress(httpx.HTTPError):
                    if client.get(url).status_code == 200:
                        break
                time.sleep(0.3)
        before = 0.0
        while time.monotonic() < deadline:
            used = sum(self.cpu().values())
            if used - before < 1.0 and before:
                return
            before = used
            time.sleep(3)
        raise RuntimeError(f"the installation did not come to rest:\n{(self._folder / 'up.log').read_text()[-3000:]}")


def measure(installation: UploadInstallation, client: httpx.Client, number: int) -> TimedUpload:
    """Send a document, and poll until a search returns it.

    Raises:
        RuntimeError: no search returns it in time.
    """
    word = _WORDS[number % len(_WORDS)]
    content = _DOCUMENT.format(number=number, word=word, hours=100 + number)
    query = f"when to replace the {word} valve of line {number}"
    upload, before = TimedUpload(number), installation.cpu()
    began = time.monotonic()
    sent = client.post("/v1/documents", files={"file": (f"Note {number}.md", content.encode())})
    sent.raise_for_status()
    identifier = sent.json()["document_id"]
    upload.stages["received"] = time.monotonic() - began
    while time.monotonic() - began < _FOUND_S:
        if "published" not in upload.stages:
            status = client.get(f"/v1/documents/{identifier}").json()["status"]
            upload.stages.setdefault(status, time.monotonic() - began)
        if "published" in upload.stages and _finds(client, query, identifier):
            upload.stages["found"] = time.monotonic() - began
            after = installation.cpu()
            upload.cpu = {name: used - before.get(name, 0.0) for name, used in after.items()}
            upload.load = load()
            return upload
        time.sleep(_EVERY_S)
    raise RuntimeError(f"document {number} was not found within {_FOUND_S:g} s: {upload.stages}")


def send(client: httpx.Client, file: Path) -> float:
    """Send a file, and return after how many seconds it is published.

    Raises:
        RuntimeError: it is not, in time or at all.
    """
    began = time.monotonic()
    sent = client.post("/v1/documents", files={"file": (file.name, file.read_bytes())})
    sent.raise_for_status()
    path, document = f"/v1/documents/{sent.json()['document_id']}", sent.json()
    while time.monotonic() - began < _FOUND_S and document["status"] != "failed":
        time.sleep(_EVERY_S)
        document = client.get(path).json()
        if document["status"] == "published":
            return time.monotonic() - began
    raise RuntimeError(f"{file.name} is {document['status']}: {document.get('reason')}")


def _finds(client: httpx.Client, query: str, identifier: str) -> bool:
    response = client.post("/v1/search", json={"query": query, "k": 5})
    return response.status_code == 200 and identifier in response.text


def _kind(command: str) -> str:
    """Return the kind of a process of the installation."""
    kinds: Mapping[str, str] = {
        "rag_assets.build.inboxes": "inboxes",
        "rag_assets.parsing.worker": "reader",
        "dagster_webserver": "webserver",
        "dagster._daemon": "daemon",
        "code-server": "code server",
        "api grpc": "code server",
        "multiprocessing": "run",
        "serve": "api",
    }
    return next((kind for part, kind in kinds.items() if part in command), "other")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.upload", description=__doc__)
    parser.add_argument("--uploads", type=int, default=5, help="documents to send, one after the other")
    parser.add_argument("--empty", action="store_true", help="without the sample wiki: the very first document of all")
    parser.add_argument("--file", type=Path, help="a file to send after them")
    options = parser.parse_args(arguments)
    facts = machine()
    with tempfile.TemporaryDirectory() as folder:
        installation = UploadInstallation(Path(folder), not options.empty)
        with installation.running() as client:
            memory = {"idle": installation.memory()}
            uploads = [measure(installation, client, number) for number in range(options.uploads)]
            memory["after_uploads"] = installation.memory()
            if options.file:
                large = {"name": options.file.name, "published_s": round(send(client, options.file), 2)}
                memory["after_file"] = installation.memory()
    found = [upload.stages["found"] for upload in uploads]
    print(
        json.dumps(
            {
                "machine": facts,
                "uploads": [upload.payload() for upload in uploads],
                "memory_mb": memory,
                **({"file": large} if options.file else {}),
                "first_s": round(found[0], 2),
                "median_s": round(statistics.median(found), 2),
                "median_cpu_s": round(statistics.median(sum(upload.cpu.values()) for upload in uploads), 2),
            },
            indent=1,
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
