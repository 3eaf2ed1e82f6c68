"""Where one tenant's questions are written down: the audit log, telemetry and what they used of a budget.

Belongs here: handing over to both. Does not belong here: what they keep (`audit.events`, `telemetry.events`).

The audit log comes first: where it is required and cannot be written, nobody gets the answer. What a question used is
counted whatever becomes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rag_serving.access.principals import Principal
from rag_serving.audit.events import of_answer, of_search
from rag_serving.audit.log import AuditLog
from rag_serving.budgets.budget import TenantBudget
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.records.flags import NEARLY_SPENT
from rag_serving.telemetry.events import Kind, Trace
from rag_serving.telemetry.telemetry import Telemetry
from rag_serving.tracing import StageTrace


@dataclass
class QuestionLog:
    """Writes questions down, each before its answer is given. `audit`, `telemetry`: None where it is off; `budget`:
    None where nothing is limited."""

    telemetry: Telemetry | None
    audit: AuditLog | None = None
    budget: TenantBudget | None = None

    def begin(self, trace: StageTrace) -> None:
        """Count a question before it is worked on, and note where the budget is nearly spent.

        Raises:
            BudgetError: it is spent.
            BudgetsAwayError: it cannot be looked up (`budgets.strict`).
        """
        if self.budget and self.budget.take("questions", "questions"):
            trace.raise_flag(NEARLY_SPENT)

    def answered(
        self, principal: Principal | None, question: str, answer: Answer, trace: Trace, kind: Kind = "ask"
    ) -> None:
        """Write down a question with what became of it.

        Raises:
            AuditUnavailableError: the audit log is required, and cannot be written.
        """
        if self.budget and answer.usage:
            usage = answer.usage
            self.budget.spend("questions", usage.prompt_tokens + usage.completion_tokens, usage.cost)
        if self.audit:
            is_selected = kind == "selected_text"
            self.audit.record(of_answer(principal, question, answer, trace.lock.chunk_ids, is_selected))
        if self.telemetry:
            self.telemetry.answered(principal, question, answer, trace, kind)

    def searched(self, principal: Principal, query: str, results: SearchResults, trace: Trace) -> None:
        """Write down a search; errors as `answered`."""
        if self.audit:
            self.audit.record(of_search(principal, query, results))
        if self.telemetry:
            self.telemetry.searched(principal, query, results, trace)

    def close(self) -> None:
        """Write what waits."""
        if self.audit:
            self.audit.close()
        if self.budget:
            self.budget.close()
        if self.telemetry:
            self.telemetry.close()
