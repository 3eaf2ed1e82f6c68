"""What tenants may use: questions, tokens, documents and money, each with a limit that warns and one that refuses.

Belongs here: keys, types, defaults. Does not belong here: counting (`citelock_governance.budgets`), prices
(`models.Price`), requests of one caller (`serving`).
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from rag_serving.config.sources import Section


class Limit(Section):
    """Two limits of one measure; null: none. A number alone is the hard one."""

    soft: float | None = Field(None, ge=0)
    """From here on answers and builds carry `budget_nearly_spent`."""
    hard: float | None = Field(None, ge=0)
    """From here on requests are refused."""

    @model_validator(mode="before")
    @classmethod
    def _of_number(cls, value: Any) -> Any:
        return {"hard": value} if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _warns_before(self) -> Limit:
        if self.soft is not None and self.hard is not None and self.soft > self.hard:
            raise ValueError(f"soft ({self.soft:g}) is above hard ({self.hard:g}); a warning comes before the refusal")
        return self

    def __bool__(self) -> bool:
        return self.soft is not None or self.hard is not None


class TenantBudgets(Section):
    """Settings for one tenant; null: as `budgets` says."""

    questions_per_minute: Limit | None = None
    """Questions of all its users per minute: a mapping of `soft` and `hard`, or only the hard limit."""
    tokens_per_day: Limit | None = None
    """Tokens that models read and write for questions, contexts and embeddings per day (UTC)."""
    cost_per_day: Limit | None = None
    """Cost of these tokens, in the currency of `generation.prices`, `context.prices` and `embedding.prices`."""
    documents_per_day: Limit | None = None
    """Documents that are uploaded per day (UTC)."""


class Budgets(TenantBudgets):
    """What each tenant may use, counted over all processes in the installation's database. Needs
    `citelock[governance]`."""

    strict: bool = False
    """Refuse requests with a limit while the database is unavailable. If false, each process uses its own counts
    meanwhile and stores them when the database is back."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit of anything."""
        return any(value for _, value in self if isinstance(value, Limit))

    def of(self, own: TenantBudgets) -> Budgets:
        """Return what holds for a tenant with settings of its own."""
        given = {name: value for name, value in own if value is not None}
        return self.model_copy(update=given)
