"""Measure the time to read all heads of a shared home: `python -m evals.bench.object_home --tenants 1000`.

Belongs here: making heads, reading them one after another, at once, and again without changes. Figures: docs/scale.md.
With `--s3` they are in moto's server, on the same cores; otherwise in a folder.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from citelock_scale.object_home.heads import FolderHead
from citelock_scale.object_home.home import ObjectHome
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.object_store import ObjectStore
from rag_serving.shared_home import ObjectHomeError

SOURCES = 3
"""Of a tenant."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--s3", action="store_true", help="on moto's server instead of a folder")
    options = parser.parse_args()
    os.environ.setdefault(SECRET_ENV, secrets.token_hex(32))
    tenants = [f"tenants/t{number}" for number in range(options.tenants)]
    names = [*tenants, *(f"sources/s{number}" for number in range(SOURCES * options.tenants))]
    with tempfile.TemporaryDirectory() as folder, _store(options.s3, Path(folder)) as settings:
        home = ObjectHome(settings, Path(folder) / "home")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda name: home.heads.write(FolderHead(name, number=1), None), names))
        sequential = ObjectHome(settings, Path(folder) / "home")
        print(f"{len(names)} heads")
        print(f"one after another  {_seconds(lambda: [sequential.heads.read(name) for name in names]):6.2f} s")
        fresh = ObjectHome(settings, Path(folder) / "home")
        print(f"several at once    {_seconds(lambda: _read(fresh, names)):6.2f} s")
        print(f"again, unchanged   {_seconds(lambda: _read(fresh, names)):6.2f} s")


def _read(home: ObjectHome, names: list[str]) -> None:
    for _, seen in home.heads.read_all(names):
        if isinstance(seen, ObjectHomeError):
            raise seen


def _seconds(call: object) -> float:
    assert callable(call)
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@contextmanager
def _store(is_s3: bool, folder: Path) -> Iterator[ObjectStore]:
    if not is_s3:
        yield ObjectStore(url=f"file://{folder / 'store'}")
        return
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_REGION="us-east-1")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="bench")
        yield ObjectStore(url="s3://bench/home", endpoint=f"http://{host}:{port}")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
