"""`citelock phase`: the retrieval phase of each tenant, its reason, and the phases that answered."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.keys import variable_of
from rag_serving.config.loading import load_config
from rag_serving.config.phases import VARIABLES

if TYPE_CHECKING:
    from rag_serving.config.loading import Config

RECENT_S = 3600.0
"""Seconds over which answered questions are counted."""
SEARCHES = {3: "words and meaning", 2: "chunks by keywords", 1: "documents by keywords"}
"""What each phase searches."""


@dataclass(frozen=True)
class TenantPhase:
    """The phase of one tenant. `phase`: the configured one; None if retrieval is switched off. `why`: what sets it: a
    key of the configuration, a variable of the environment, or the default. `canary`: what is tried out on some
    questions; empty if nothing is. `answered`: questions of the last hour by the phase that answered them; None if
    telemetry cannot say."""

    tenant: str
    phase: int | None
    why: str
    canary: str = ""
    answered: dict[int | None, int] | None = field(default_factory=dict)

    @property
    def is_lowered(self) -> bool:
        """Return whether a phase below the configured one answered, or none did."""
        return self.phase is not None and any((phase or 0) < self.phase for phase in self.answered or {})

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; `answered` has the key `none` for questions that no phase answered."""
        counts = self.answered
        named = None if counts is None else {str(phase or "none"): count for phase, count in counts.items()}
        return {
            "tenant": self.tenant,
            "phase": self.phase,
            "why": self.why,
            "canary": self.canary or None,
            "answered_last_hour": named,
        }

    @property
    def line(self) -> str:
        """Return it in words."""
        searched = f"phase {self.phase} ({SEARCHES[self.phase]})" if self.phase else "off: pages are not searched"
        parts = [f"{searched}, by {self.why}"]
        if self.canary:
            parts.append(f"tried out: {self.canary}")
        if self.answered is None:
            parts.append("telemetry cannot say what answered")
        elif self.answered:
            counts = (
                f"{count:,} {f'in phase {phase}' if phase else 'without a phase'}"
                for phase, count in self.answered.items()
            )
            parts.append(f"last hour: {', '.join(counts)}")
        else:
            parts.append("no question in the last hour")
        return "; ".join(parts)


def command(config: ConfigPath = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show the retrieval phase of each tenant, its reason, and the phases that answered.

    \b
    citelock phase
    citelock phase --tenant acme --json | jq .[0].answered_last_hour

    A running server may be in another phase for a while: `GET /v1/status` has it, with the reason. To change it set
    `retrieval.phase`, `retrieval.enabled`, or the same under `tenants.NAME.retrieval`; a running server follows the
    file.
    """
    settings = load_config(config)
    names = [chosen_tenant(settings, tenant)] if tenant else sorted(settings.tenants)
    found = [phase_of(settings, name) for name in names]
    if as_json:
        typer.echo(json.dumps([each.payload() for each in found], indent=2))
        return
    for each in found:
        typer.echo(f"{each.tenant}: {each.line}")


def phase_of(config: Config, tenant: str) -> TenantPhase:
    """Return the phase of a tenant, with what telemetry has of its last hour; nothing is changed."""
    settings = config.phases_of(tenant)
    phase, key = (settings.phase, "phase") if settings.enabled else (None, "enabled")
    trial = ""
    if canary := settings.canary:
        changed = (f"{name}: {str(value).lower()}" for name, value in canary.features.items())
        trial = f"{', '.join(changed)} in {', '.join(canary.spaces)}"
    return TenantPhase(tenant, phase, _set_by(config, tenant, key), trial, _answered(config, tenant))


def _set_by(config: Config, tenant: str, key: str) -> str:
    own, of_all = ["tenants", tenant, "retrieval", key], ["retrieval", key]
    if os.environ.get(VARIABLES[key], "").strip():
        return VARIABLES[key]
    is_own = getattr(config.tenants[tenant].retrieval, key) is not None
    path = own if is_own else of_all
    if os.environ.get(variable_of(path)):
        return variable_of(path)
    is_default = not is_own and getattr(config.retrieval, key) == type(config.retrieval).model_fields[key].default
    return f"the default of {'.'.join(path)}" if is_default else ".".join(path)


def _answered(config: Config, tenant: str) -> dict[int | None, int] | None:
    from rag_serving.artifacts.store import Store
    from rag_serving.telemetry.recorder import TelemetryError
    from rag_serving.telemetry.tables import opened
    from rag_serving.telemetry.writer import answered_in

    settings, file = config.telemetry, Store(config.home).serving_db()
    if not settings.enabled:
        return None
    if settings.url is None and not file.exists():
        return {}
    try:
        with opened(settings.url, file) as engine:
            return answered_in(engine, tenant, time.time() - RECENT_S)
    except TelemetryError:
        return None
