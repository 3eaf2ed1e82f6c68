"""Files on their way to the store: in parts if they are large, and only as what their names say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import boto3
import pytest
from support.s3_server import BUCKET, CREDENTIALS, faulty

from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.objects import PART_BYTES, Objects
from rag_serving.config.index import ObjectStore
from rag_serving.shared_home import ObjectHomeError

NAME = "tenants/acme"
LARGE = (66 << 20) + 1


def share(home: ObjectHome, content: bytes) -> Path:
    path = home.home / NAME / "vectors"
    with home.writing(NAME):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path


def test_a_large_file_is_sent_in_parts_and_comes_back(machine: Any) -> None:
    home, reader = machine("a"), machine("b")
    path = share(home, os.urandom(LARGE))
    reader.refresh(NAME)
    assert (reader.home / NAME / "vectors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
@pytest.mark.parametrize("is_shorter", [False, True])
def test_a_file_that_changes_on_the_way_is_refused(machine: Any, s3: str, is_shorter: bool) -> None:
    """Its name would say another content than it has, to everybody and for good."""
    size = 5 * PART_BYTES
    with faulty(s3) as proxy:
        home = machine("a", endpoint=proxy.url)
        path = home.home / NAME / "vectors"

        def change(_method: str, request: str) -> str:
            if "partNumber=1&" in request and path.stat().st_size == size:
                with path.open("r+b") as file:
                    if is_shorter:
                        file.truncate(size - 1)
                    else:
                        file.seek(size - 1)
                        file.write(b"!")
                        file.truncate(size)
            return ""

        proxy.fault = change
        with pytest.raises(ObjectHomeError, match="changes while it is shared"):
            share(home, bytes(size))
        parts = [one for one in proxy.asked if "partNumber=" in one]
    assert parts
    assert not [name for name, _, _ in home.objects.names(f"{NAME}/blobs/")]
    client = boto3.client(
        "s3",
        endpoint_url=s3,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name=CREDENTIALS["AWS_REGION"],
    )
    prefix = home.settings.url.removeprefix(f"s3://{BUCKET}/")
    unfinished = client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{prefix}/").get("Uploads", [])
    client.close()
    assert unfinished == []


def test_the_address_of_an_s3_server_is_for_s3_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    opened = {scheme: Objects(ObjectStore(url=f"{scheme}://home/prefix")) for scheme in ("s3", "gs", "az")}
    configs = {scheme: str(objects._store.config) for scheme, objects in opened.items()}
    assert "127.0.0.1" in configs["s3"]
    assert "127.0.0.1" not in configs["gs"] + configs["az"]
    named = Objects(ObjectStore(url="az://home/prefix", endpoint="http://127.0.0.1:10000/acme"))
    assert "10000" in str(named._store.config)
    with pytest.raises(ObjectHomeError, match="for s3:// and az://"):
        Objects(ObjectStore(url="gs://home/prefix", endpoint="http://127.0.0.1:9"))
