"""nginx as `deploy/proxy/nginx.conf` configures it, before a server of this machine: Debian's nginx-light."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "proxy" / "nginx.conf"
PROGRAM = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_START_S = 20


@contextmanager
def behind_nginx(port: int, tls: Path | None = None, changed: Mapping[str, str] | None = None) -> Iterator[int]:
    """Yield the port of an nginx before a server. `tls`: the folder of its certificate; None: without one; `changed`:
    replacements of directives.

    Raises:
        ValueError: a directive does not occur exactly once.
        RuntimeError: nginx does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        text = CONFIGURATION.read_text("utf-8").replace("/tmp/", f"{name}/").replace("/etc/citelock/tls", str(tls))
        if tls is None:
            text = "\n".join(line for line in text.splitlines() if not line.strip().startswith("ssl_"))
        listening = {"listen 8443 ssl;": f"listen {own} ssl;" if tls else f"listen {own};"}
        for old, new in {"serving:8088;": f"127.0.0.1:{port};", **listening, **(changed or {})}.items():
            if text.count(old) != 1:
                raise ValueError(f"{old} stands {text.count(old)} times in {CONFIGURATION.name}")
            text = text.replace(old, new)
        file = Path(name, "nginx.conf")
        file.write_text(text, "utf-8")
        with subprocess.Popen([str(PROGRAM), "-e", "stderr", "-c", str(file), "-g", "daemon off;"]) as process:
            try:
                _wait(own, process)
                yield own
            finally:
                process.terminate()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise RuntimeError("nginx does not start")
