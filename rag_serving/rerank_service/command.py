"""`citelock rerank-service`: the process of the reranker sidecar."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_serving.cli.group import FAILED

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.config.models import RerankService


def command(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Configuration file; without one, defaults and CITELOCK_* variables hold."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="A cross-encoder: NAME or NAME@COMMIT on the hub, or its folder; reranker.model.",
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")] = 8000,
    device: Annotated[
        str, typer.Option("--device", help="auto (CUDA if possible), cpu, mps, cuda or cuda:1.")
    ] = "auto",
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Most pairs scored in one batch.")] = 32,
) -> None:
    """Serve a cross-encoder that reranks passages (on the machine with the GPU).

    \b
    pip install 'citelock[rerank]'
    citelock rerank-service
    citelock rerank-service --model BAAI/bge-reranker-v2-m3 --device cuda:1
    RERANK_TOKEN=... CITELOCK_RERANKER__TOKEN_ENV=RERANK_TOKEN citelock rerank-service --host 0.0.0.0

    Then, where questions are answered, set reranker.url to http://HOST:8000/rerank, and try it:

    \b
    curl -s localhost:8000/rerank -H 'content-type: application/json' -d
      '{"query": "roll back", "candidates": [{"id": "a", "text": "Press Undo."}], "top_n": 8, "max_seq_len": 512}'
    """
    from rag_serving.config.models import RerankService
    from rag_serving.tracing.exporting import open_tracing

    settings = service_config(config)
    service = RerankService(host=host, port=port, device=device, batch_size=batch_size)
    token = service_token(service, settings.reranker.token_env)
    named = settings.reranker
    open_tracing(settings.tracing, "citelock-reranker")
    run(service, model or named.model, token, named.max_seq_len)


def service_config(path: Path | None) -> Config:
    """Return the configuration; if no file is named and none is there, defaults and the environment. Raises
    ConfigError: as `load_config`."""
    from rag_serving.config.loading import DEFAULT_CONFIG, load_config, parse_config

    if path is None and "CITELOCK_CONFIG" not in os.environ and not DEFAULT_CONFIG.exists():
        return parse_config({}, origin="environment")
    return load_config(path)


def service_token(service: RerankService, variable: str | None) -> str | None:
    """Return the bearer token that requests must carry; None only on a loopback address. Raises ConfigError: the
    variable is not set, or the address is open to other machines without a token."""
    from rag_serving.api.wire import is_loopback
    from rag_serving.config.loading import ConfigError

    if variable is None:
        if not is_loopback(service.host):
            raise ConfigError(
                f"--host {service.host} is open to other machines; set reranker.token_env to the name of "
                "an environment variable with a token"
            )
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ConfigError(f"the environment variable {variable} (reranker.token_env) is not set; put the token there")
    return token


def run(service: RerankService, model: str, token: str | None, max_seq_len: int) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first. Raises typer.Exit: port or model cannot
    be used; the reason was printed."""
    import uvicorn

    from rag_serving.rerank_service.api import create_app
    from rag_serving.rerank_service.cross_encoder import CrossEncoder

    def give_up() -> None:
        server.should_exit = True

    app = create_app(service, model, token, lambda: CrossEncoder.open(model, service.device, max_seq_len), give_up)
    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "log_config": None}
    ending_s = max(1, round(service.timeout_s))
    served = uvicorn.Config(app, service.host, service.port, timeout_graceful_shutdown=ending_s, **quiet)
    server = uvicorn.Server(served)
    note = "bearer token" if token else "no authentication, this machine only"
    print(f"citelock: http://{service.host}:{service.port}/rerank, {model} ({note})", file=sys.stderr)
    try:
        server.run()
    except SystemExit:  # the reason, such as a port in use, was logged
        raise typer.Exit(FAILED) from None
    if problem := app.state.reranking.engine.problem:
        print(f"citelock: {problem}", file=sys.stderr)
        raise typer.Exit(FAILED)
