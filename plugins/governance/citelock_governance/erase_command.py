"""`citelock erase`: arguments and printing.

Belongs here: the command. Does not belong here: removing anything (`erasing`).
"""

from __future__ import annotations

from typing import Annotated

import typer

from rag_serving.cli.group import UsageError
from rag_serving.cli.options import AsJson, ConfigPath, chosen_tenant
from rag_serving.config.loading import load_config
from rag_serving.escaping.targets import for_json, for_terminal_line


def command(
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant.")],
    is_meant: Annotated[bool, typer.Option("--yes", help="Remove it; without this, only show what there is.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Remove everything that is kept of a tenant, with a signed proof. Nothing of it can be brought back.

    \b
    citelock erase --tenant acme          shows what there is
    citelock erase --tenant acme --yes

    Generations, in the database of `index` too, caches, tables of its sources, uploads, receipts, sessions, telemetry,
    keys, jobs and its audit log go. Stop its builds and servers before, take it out of the configuration afterwards. A
    run that was killed is finished by the next one.
    """
    from citelock_governance.erasing import TenantErasure

    settings = load_config(config)
    erasure = TenantErasure(settings, chosen_tenant(settings, tenant))
    if not is_meant and as_json:
        typer.echo(for_json({"tenant": tenant, "found": erasure.found()}))
        return
    if not is_meant:
        found = erasure.found()
        for name, counts in found["rows"].items():
            for table, count in counts.items():
                typer.echo(for_terminal_line(f"{name}, {table}: {count}"))
        for folder, size in found["folders"].items():
            typer.echo(for_terminal_line(f"{folder}: {size['files']} files, {size['bytes']} bytes"))
        raise UsageError(f"nothing was removed; --yes removes all of {tenant} for good")
    proof = erasure.erase()
    if as_json:
        typer.echo(for_json(proof))
        return
    rows = sum(count for counts in proof["removed"]["rows"].values() for count in counts.values())
    files = sum(size["files"] for size in proof["removed"]["folders"].values())
    typer.echo(for_terminal_line(f"{tenant}: removed {rows} rows and {files} files; the proof is {proof['file']}"))
    for line in proof["not_covered"]:
        typer.echo(for_terminal_line(f"not covered: {line}"), err=True)
