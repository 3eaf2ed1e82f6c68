"""Telling somebody: an event handed to a command, or posted to a webhook.

Belongs here: delivery, bounded in time; what fails is said in one line and fails nothing else.
Does not belong here: what is worth an alert (`rag_assets.monitoring.watching`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rag_serving.config.monitoring import Monitoring
from rag_serving.escaping.redaction import redacted_values

Event = Mapping[str, Any]
"""`event`, `text` (a line for people), `time`, and what it is about."""


def send(event: Event, monitoring: Monitoring) -> list[str]:
    """Hand an event to each hook that is configured and return what became of it; nothing is raised."""
    body, limit = json.dumps(redacted_values(event), ensure_ascii=False), monitoring.alert_timeout_s
    results = []
    if monitoring.alert_command:
        results.append(f"command {monitoring.alert_command[0]}: {_run(monitoring.alert_command, body, limit)}")
    if monitoring.alert_url_env:
        results.append(f"webhook of {monitoring.alert_url_env}: {_post(monitoring.alert_url_env, body, limit)}")
    return results


def _run(command: list[str], body: str, limit: float) -> str:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"could not be started ({error})"
    with process:
        try:
            process.communicate(body.encode(), timeout=limit)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"took longer than {limit:g} s and was ended"
    return "taken" if process.returncode == 0 else f"failed with status {process.returncode}"


def _post(variable: str, body: str, limit: float) -> str:
    """Post to the address in a variable, which is a secret and is not told."""
    url = os.environ.get(variable, "").strip()
    if not url:
        return "the variable is empty"
    results: list[str] = []
    # A server that answers one byte a second stays below every limit of the client.
    thread = threading.Thread(target=lambda: results.append(_posted(url, body, limit)), daemon=True)
    thread.start()
    thread.join(limit)
    return results[0] if results else f"did not answer within {limit:g} s"


def _posted(url: str, body: str, limit: float) -> str:
    import httpx

    headers = {"content-type": "application/json"}
    try:
        with httpx.Client(timeout=limit) as client, client.stream("POST", url, content=body, headers=headers) as reply:
            return "taken" if reply.is_success else f"answered {reply.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"could not be reached ({type(error).__name__})"
