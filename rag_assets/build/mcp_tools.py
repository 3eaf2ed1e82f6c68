"""Tools of MCP that write, for editors: the context of a passage, and indexing a tenant's pages anew with contexts."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from rag_assets.llm_contexts.tenant import preview
from rag_assets.steps.contexts.contextualize import COMPONENTS, WrittenContext
from rag_serving.artifacts.store import Store
from rag_serving.deadline import Deadline
from rag_serving.mcp.calls import Caller, Calls
from rag_serving.mcp.reading import NOTHING
from rag_serving.mcp.server import GENERATE_CONTEXT, REINDEX_WITH_CONTEXT
from rag_serving.mcp.shapes import MAX_ID_CHARS, PassageId
from rag_serving.models.protocols import ModelError
from rag_serving.tracing import Listen

_Key = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Sources = Annotated[list[_Key], Field(max_length=100, description="Keys of sources; empty: all of the tenant's.")]


class Quality(BaseModel):
    """Hold the scores of a context, each from 0 to 1."""

    overall: float
    length_score: float | None = None
    relevance_score: float | None = None
    coherence_score: float | None = None
    specificity_score: float | None = None
    issues: list[str] = []


class ContextualChunk(BaseModel):
    """A passage with its lines of context in the index."""

    chunk_id: str
    original_content: str
    contextual_prefix: str
    contextualized_content: str
    document_title: str
    quality: Quality | None = None
    llm_provider: str = ""
    llm_model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    failure: str | None = None


class Reindexed(BaseModel):
    """Tell how indexing anew ended."""

    status: Annotated[str, Field(description="completed, interrupted (what was finished is kept) or failed")]
    generation_before: str | None
    generation: str | None
    published: bool
    lines: list[str]


def add_tools(server: MCPServer[Any], calls: Calls, config: Path | None) -> None:
    """Offer the tools. `config`: the file that a build reads; None: the usual one."""
    tools = WritingTools(calls, config)
    asks = ToolAnnotations(read_only_hint=True, idempotent_hint=False, destructive_hint=False, open_world_hint=True)
    server.add_tool(tools.generate_context, None, "Write a passage's context", GENERATE_CONTEXT, asks)
    # Nothing is destroyed: what is published stays until a whole generation takes its place.
    writes = ToolAnnotations(read_only_hint=False, idempotent_hint=True, destructive_hint=False, open_world_hint=True)
    server.add_tool(tools.reindex_with_context, None, "Index anew with contexts", REINDEX_WITH_CONTEXT, writes)


class WritingTools:
    """The tools, for callers who are editors."""

    def __init__(self, calls: Calls, config: Path | None) -> None:
        self._calls, self._config = calls, config

    async def generate_context(self, passage_id: PassageId, context: Context) -> ContextualChunk:
        """Return the configured model's context of a stored passage that the caller may read."""
        return await self._calls.run(context, lambda caller: _context_of(_editor(caller), passage_id))

    async def reindex_with_context(
        self, context: Context, sources: Sources | None = None, estimate: bool = False
    ) -> Reindexed:
        """Build the tenant's sources in a process of its own; with `estimate` nothing is written or published."""

        def work(caller: Caller, listen: Listen) -> Reindexed:
            keys = _sources_of(_editor(caller), sources or [])
            options = ["--estimate"] if estimate else ["--retry-contexts"]
            store, tenant = Store(caller.pipeline.config.home), caller.principal.tenant
            before = store.current(tenant)
            result = run_build(
                self._config, [*options, "--", *keys], caller.deadline, lambda line: listen("build", line)
            )
            after = store.current(tenant)
            status = "completed" if result.code == 0 else "interrupted" if result.interrupted else "failed"
            return Reindexed(
                status=status,
                generation_before=before,
                generation=after,
                published=before != after,
                lines=list(result.lines),
            )

        return await self._calls.answer(context, work)


def _editor(caller: Caller) -> Caller:
    """Return the caller, who must be an editor: the tools are not even listed for others. Raises ToolError: the caller
    is none."""
    if "editor" not in caller.principal.roles:
        raise ToolError("this tool is for editors")
    return caller


def _sources_of(caller: Caller, named: list[str]) -> list[str]:
    """Return keys of the tenant's sources: those named, or all. Raises ToolError: one is not the tenant's, or it has
    none."""
    sources = caller.pipeline.config.sources
    own = sorted(key for key, source in sources.items() if source.tenant == caller.principal.tenant)
    if wrong := sorted(set(named) - set(own)):
        raise ToolError(f"there is no source {wrong[0]!r}; there are: {', '.join(own) or 'none'}")
    if not own:
        raise ToolError("no source is configured for this tenant")
    return named or own


def _context_of(caller: Caller, passage_id: str) -> ContextualChunk:
    with caller.pipeline.reading(caller.principal) as view:
        row = view.row_of(passage_id)
        if row is None:
            raise ToolError(NOTHING)
        chunk = view.chunks([row])[0]
        page = view.chunks(view.page_rows(chunk.page_id).tolist())
    try:
        made = preview(chunk, page, caller.pipeline.config.context)
    except ModelError as error:
        raise ToolError(str(error)) from None
    written = made.written
    prefix = "\n".join(filter(None, (made.prefix, written.text if written else "")))
    return ContextualChunk(
        chunk_id=chunk.chunk_id,
        original_content=chunk.text,
        contextual_prefix=prefix,
        contextualized_content=f"{prefix}\n{chunk.text}" if prefix else chunk.text,
        document_title=chunk.title,
        failure=made.failure,
        **(_facts(written) if written else {}),
    )


def _facts(written: WrittenContext) -> dict[str, Any]:
    scores = dict(zip(COMPONENTS, written.scores or (), strict=False))
    return {
        "quality": Quality(overall=written.quality, issues=list(written.issues), **scores),
        "llm_provider": written.provider,
        "llm_model": written.model,
        "tokens_in": written.tokens_in,
        "tokens_out": written.tokens_out,
    }


_COMMAND = (sys.executable, "-c", "from rag_serving.cli.main import main; main()", "build")
_MOST_LINES, _MOST_CHARS = 50, 300
_KILLED_AFTER_S = 20.0


@dataclass(frozen=True)
class BuildResult:
    """Tell how a build ended: its exit code, whether it was interrupted, and the last lines that it wrote."""

    code: int
    interrupted: bool
    lines: tuple[str, ...]


def run_build(
    config: Path | None, arguments: Sequence[str], deadline: Deadline, listen: Callable[[str], object]
) -> BuildResult:
    """Build until it ends, or interrupt it at the deadline: what was finished is kept. `listen` hears each line of
    progress."""
    command = [*_COMMAND, *(["--config", str(config)] if config else []), *arguments]
    lines: deque[str] = deque(maxlen=_MOST_LINES)
    with tempfile.TemporaryFile("w+") as summary:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=summary, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as child:
            interruption = _Interruption(child)
            timer = threading.Timer(deadline.left, interruption)
            timer.daemon = True
            timer.start()
            deadline.on_cancel(interruption)
            for line in child.stderr or ():
                lines.append(line.strip()[:_MOST_CHARS])
                listen(lines[-1])
        timer.cancel()
        summary.seek(0)
        told = [line.strip()[:_MOST_CHARS] for line in summary.read(100_000).splitlines()[:_MOST_LINES]]
    return BuildResult(child.returncode, interruption.was_called, (*lines, *told))


class _Interruption:
    """Interrupts a process, and kills it where it does not end by that. May be called more than once."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.was_called = False

    def __call__(self) -> None:
        if self.was_called or self._child.poll() is not None:
            return
        self.was_called = True
        with suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGINT)
        killer = threading.Timer(_KILLED_AFTER_S, self._child.kill)
        killer.daemon = True
        killer.start()
