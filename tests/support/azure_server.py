"""Azure's blob storage as azurite plays it: a Node program, taken from where CITELOCK_AZURITE says.

`npm install --prefix FOLDER azurite@3.37.0` (MIT), then CITELOCK_AZURITE=FOLDER/node_modules/azurite.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from support.waiting import wait_until

AZURITE = os.environ.get("CITELOCK_AZURITE")
ACCOUNT, CONTAINER = "devstoreaccount1", "citelock"
# The account and key that every azurite has: https://github.com/Azure/Azurite#default-storage-account
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CREDENTIALS = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
_VERSION = "2021-08-06"


@contextmanager
def azure_server() -> Iterator[str]:
    """The server's address; it has one empty container."""
    assert AZURITE
    port = _free_port()
    options = [
        "--inMemoryPersistence",
        "--blobPort",
        str(port),
        "--silent",
        "--skipApiVersionCheck",
        "--disableTelemetry",
    ]
    program = Path(AZURITE) / "dist" / "src" / "blob" / "main.js"
    with subprocess.Popen(["node", str(program), *options], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _is_made(port), 120)
            yield f"http://127.0.0.1:{port}/{ACCOUNT}"
        finally:
            process.kill()


def _is_made(port: int) -> bool:
    """Make the container, and return whether it is there."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    path = f"/{ACCOUNT}/{CONTAINER}"
    signed = "\n".join(
        ["PUT", *[""] * 11, f"x-ms-date:{now}", f"x-ms-version:{_VERSION}", f"/{ACCOUNT}{path}", "restype:container"]
    )
    made = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
    headers = {"x-ms-date": now, "x-ms-version": _VERSION, "Authorization": f"SharedKey {ACCOUNT}:{made}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("PUT", f"{path}?restype=container", headers=headers)
        return connection.getresponse().status in (201, 409)
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
