"""`citelock`: questions, searches, the server, receipts, the doctor."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rag_serving.cli.group import FAILED, Commands, UsageError, overridden
from rag_serving.cli.options import (
    AsJson,
    ConfigPath,
    Docs,
    Groups,
    Tenant,
    User,
    Wait,
    config_of,
    indexed,
    open_pipeline,
    principal_of,
    with_access_note,
)
from rag_serving.cli.printing import finding_line, search_lines, shaped, shown, tell, tell_flags, tell_proof
from rag_serving.escaping.targets import for_json
from rag_serving.privacy import complain, log_to_stderr
from rag_serving.records.queries import Occasion

if TYPE_CHECKING:
    from rag_serving.config.loading import Config
    from rag_serving.records.queries import Filters

_SHORT = (["ask"], ["search"])

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Answers from a company's own pages, whose citations cannot lie.",
    epilog="Start with: citelock init, citelock build, then: citelock ask 'How do I roll back a release?'",
)
receipt_app = typer.Typer(
    help="Show a receipt, or prove that its quotes stand in the stored pages.", no_args_is_help=True
)
app.add_typer(receipt_app, name="receipt")

Spaces = Annotated[list[str] | None, typer.Option("--space", help="Only pages of this space; repeatable.")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="Only pages with this label; repeatable.")]
Title = Annotated[str | None, typer.Option("--title", help="Only pages whose title has these words.")]


def main() -> None:
    """The entry point of the command."""
    log_to_stderr()
    if sys.argv[1:2] in _SHORT:
        gc.disable()  # looking for garbage takes a tenth of its time
    try:
        app(prog_name="citelock")
    finally:
        gc.freeze()  # and as much again when the interpreter ends


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"citelock {version('citelock')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Do nothing before a command."""


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    config: ConfigPath = None,
    docs: Docs = None,
    wait: Wait = False,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    space: Spaces = None,
    label: Labels = None,
    title: Title = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show how the question was read, what was found, and what kept it unanswered."),
    ] = False,
    shape: Annotated[
        Literal["text", "markdown", "json", "csv"],
        typer.Option("--format", help="How the answer is printed; csv: the members of a set."),
    ] = "text",
    as_of: Annotated[str, typer.Option("--as-of", help="Ask a kept generation: its id, or a date (2026-02-09).")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; the same as --format json.")] = False,
) -> None:
    """Answer a question with verified citations.

    \b
    citelock ask "How do I roll back a release?"
    citelock ask --docs ./handbook "How do I roll back a release?"
    citelock ask "Who releases the reserve for incidents?" --user ann --group finance
    citelock ask "How long are logs kept?" --json | jq .citations
    citelock ask "How long are logs kept?" --format markdown >> notes.md
    citelock ask 'What does "exit code" 137 mean? space:ENG' --explain

    In the question: space:OPS, label:howto and title:"Release notes" narrow it, as the options do; a "quoted phrase"
    is looked for to the letter, a name such as max.poll.records whole; "in the Release notes" puts that page first.
    --explain says how the question was read.
    """
    with indexed(docs, config, wait) as path, open_pipeline(path, tenant, asks=True) as pipeline:
        principal, filters = principal_of(pipeline, user, group), filters_of(space, label, title)
        text = _not_empty("question", question, pipeline.config)
        with shown() as listen:
            answer = pipeline.ask(principal, text, filters, explain, listen, occasion=Occasion(as_of=as_of))
        if explain or answer.outcome == "closest" or answer.status in ("not_found", "needs_more_context"):
            answer = with_access_note(pipeline, principal, answer)
        # Told before the pipeline is closed: its telemetry may still have to be written.
        shape = "json" if as_json else shape
        if answer.status != "unavailable" or shape == "json":
            tell(shaped(answer, shape))
    if answer.status == "unavailable":
        complain(answer.answer)
        raise typer.Exit(FAILED)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words to search for.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=100, help="Passages to show.")] = 10,
    docs: Docs = None,
    config: ConfigPath = None,
    wait: Wait = False,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    space: Spaces = None,
    label: Labels = None,
    title: Title = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how the query was read and what each stage says of each candidate.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search passages without answering.

    \b
    citelock search "release rollback"
    citelock search berth.scheduler.max_parallel -k 3 --space ENG
    citelock search 'label:runbook "rolled back"'
    citelock search "release rollback" --explain

    space:OPS, label:howto and title:"Release notes" among the words narrow the search, as the options do; a "quoted
    phrase" is looked for to the letter.
    """
    with indexed(docs, config, wait) as path, open_pipeline(path, tenant, asks=True) as pipeline:
        principal, filters = principal_of(pipeline, user, group), filters_of(space, label, title)
        results = pipeline.search(principal, _not_empty("query", query, pipeline.config), k, filters, explain=True)
        if not results.results:
            results = with_access_note(pipeline, principal, results)
        results = results if explain else replace(results, query=None, candidates=())
        if as_json:
            tell(for_json(results.payload()))
            return
        tell("\n".join(search_lines(results)))
        tell_flags(results.degraded)


@app.command()
def serve(
    config: ConfigPath = None,
    docs: Docs = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on; default serving.host.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on; default serving.port.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=64, help="Processes that answer; default serving.workers.")
    ] = None,
) -> None:
    """Serve the HTTP API.

    A running server follows its configuration file; SIGHUP makes it read that and the files that it names again.

    \b
    citelock serve
    citelock serve --workers 4     for many who ask at once: a process for each core
    curl -s localhost:8088/v1/ask -H 'content-type: application/json' -d '{"question": "How long are logs kept?"}'
    """
    run_server(config_of(docs, config), host=host, port=port, workers=workers)


def run_server(path: Path | None, **given: object) -> None:
    """Serve by the configuration, with these values of its section `serving` if they are given."""
    from rag_serving.api.process import fork_context
    from rag_serving.config.loading import config_path, load_config

    settings = load_config(path)
    serving = overridden(settings.serving, **given)
    settings = overridden(settings, serving=serving)
    if serving.workers > 1:
        fork_context()  # imports beside us
    from rag_serving.api import server
    from rag_serving.api.auth import check_address

    check_address(serving)
    note = "no authentication, this machine only" if serving.auth == "loopback" else "bearer tokens"
    print(f"citelock: http://{serving.host}:{serving.port}{'/mcp' if serving.mcp else ''} ({note})", file=sys.stderr)
    try:
        server.serve(settings, config_path(path))
    except SystemExit:  # the reason, such as a port in use, was logged
        raise typer.Exit(FAILED) from None


@app.command()
def doctor(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Look at everything an answer depends on, and say how to mend what is wrong."""
    from rag_serving.cli.doctor import examine

    findings = []
    for finding in examine(config):
        findings.append(finding)
        if not as_json:
            typer.echo(finding_line(finding))
    if as_json:
        typer.echo(for_json([vars(finding) for finding in findings]))
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(FAILED)


@receipt_app.command("show")
def receipt_show(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The answer's receipt_id.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Print a receipt as JSON."""
    with open_pipeline(config, tenant) as pipeline:
        receipt = pipeline.secrecy.opened(pipeline.receipts.get(identifier, pipeline.tenant))
    typer.echo(for_json(receipt, indent=2))


@receipt_app.command("verify")
def receipt_verify(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The answer's receipt_id.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Prove a receipt against the stored pages, without any model.

    \b
    citelock receipt verify 3f9c2a71d05e4b8896aa10c47d2be6f3
    citelock receipt verify 3f9c2a71d05e4b8896aa10c47d2be6f3 --json | jq .changes

    Checked are the signature, the text of every passage, the quotes at their offsets and on their pages, the digests of
    their files, and every verdict. Later changes of the published pages are listed, and leave a receipt valid.
    """
    with open_pipeline(config, tenant) as pipeline:
        proof = pipeline.proof(identifier)
    if as_json:
        typer.echo(for_json(proof.payload()))
    else:
        tell_proof(proof)
    if proof.faults:
        raise typer.Exit(FAILED)


@receipt_app.command("watch")
def receipt_watch(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The answer's receipt_id.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    stop: Annotated[bool, typer.Option("--stop", help="Send no more notices.")] = False,
) -> None:
    """Send a user notices when the pages of an answer say something else than the answer.

    \b
    citelock receipt watch 3f9c2a71d05e4b8896aa10c47d2be6f3 --user ann@acme.example
    citelock receipt watch 3f9c2a71d05e4b8896aa10c47d2be6f3 --user ann@acme.example --stop

    After each publication the cited pages are compared as the user may read them then. A notice has the words before
    and now, and goes to `monitoring.notice_folder` and `monitoring.notice_url_env`.
    """
    from rag_serving.checking.guarantee import follow

    with open_pipeline(config, tenant) as pipeline:
        principal = principal_of(pipeline, user, group)
        if stop:
            pipeline.subscriptions.remove(principal, identifier)
        else:
            follow(pipeline, principal, identifier)
    typer.echo("no more notices are sent" if stop else "notices are sent when the answer changes")


def filters_of(space: list[str] | None, labels: list[str] | None, title: str | None) -> Filters | None:
    """Return the filters that these options say; None without any."""
    from rag_serving.query.filters import parse_filters

    given: dict[str, Any] = {"space": space, "labels": labels, "title": title}
    return parse_filters({key: value for key, value in given.items() if value})


def _not_empty(name: str, text: str, config: Config) -> str:
    text, limit = text.strip(), config.serving.max_question_chars
    if not text:
        raise UsageError(f"the {name} is empty")
    if len(text) > limit:
        raise UsageError(f"the {name} has {len(text)} characters, at most {limit} are read")
    return text
