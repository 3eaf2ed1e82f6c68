"""`citelock check`: arguments, progress and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from rag_serving.checking import report
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.main import Labels, Spaces, Title, filters_of
from rag_serving.cli.options import ConfigPath, Docs, Groups, Tenant, User, config_of, open_pipeline, principal_of
from rag_serving.cli.printing import shown, tell, tell_flags
from rag_serving.escaping.targets import for_json
from rag_serving.text.normalization import fault_of
from rag_serving.tracing import Listen

MOST_BYTES = 20_000_000
_FAILING = ("otherwise", "closest", "absent", "never")


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text or Markdown file; - reads standard input.")],
    shape: Annotated[
        Literal["text", "json", "sarif", "markdown"], typer.Option("--format", help="How the report is printed.")
    ] = "text",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on", help="Exit with 1 where a claim is otherwise, closest, absent; repeatable; never: with 0."
        ),
    ] = None,
    docs: Docs = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    space: Spaces = None,
    label: Labels = None,
    title: Title = None,
) -> None:
    """Check a text against the pages: claims that are there word for word, and pages that say otherwise.

    \b
    citelock check README.md
    citelock check README.md --docs ./docs
    citelock check policy.md --format sarif --fail-on otherwise --fail-on absent > check.sarif
    pbpaste | citelock check - --user ann --group finance
    """
    counted = fail_on or ["otherwise"]
    if unknown := set(counted).difference(_FAILING):
        raise UsageError(f"--fail-on {min(unknown)}: known are {', '.join(_FAILING)}")
    text = _read(file)
    name = "text" if file == "-" else file
    path = config_of(docs, config, is_whole=True)
    with open_pipeline(path, tenant, asks=True) as pipeline, _progress(len(text)) as listen:
        principal = principal_of(pipeline, user, group)
        checked = pipeline.check(principal, text, filters_of(space, label, title), listen)
    if shape == "json":
        tell(for_json(checked.payload()))
    elif shape == "sarif":
        tell(for_json(report.sarif(checked, text, name), indent=2))
    else:
        tell(report.markdown(checked) if shape == "markdown" else "\n".join(report.lines(checked, text, name)))
    tell_flags(checked.flags)
    if any(count and verdict in counted for verdict, count in checked.summary.items()):
        raise typer.Exit(FAILED)


def _read(file: str) -> str:
    """Return the text of a file. Raises UsageError: it cannot be read, is no text, or is too large."""
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1) if file == "-" else Path(file).read_bytes()[: MOST_BYTES + 1]
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text in UTF-8") from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"{file} has more than {MOST_BYTES:,} bytes; check its parts")
    if fault := fault_of(text):
        raise UsageError(f"{file}: {fault}")
    return text


_LONG = 100_000  # characters of a text whose progress is printed in lines without a terminal


@contextmanager
def _progress(length: int) -> Iterator[Listen | None]:
    """Yield a progress listener on standard error; for a long text even without a terminal."""
    with shown() as listen:
        last = [-1]

        def told(stage: str, detail: str) -> None:
            done, _, rest = detail.partition(" of ")
            if stage == "check" and rest and int(done) // 1000 > last[0]:
                last[0] = int(done) // 1000
                print(f"citelock: {detail}", file=sys.stderr, flush=True)

        yield listen if listen or length < _LONG else told
