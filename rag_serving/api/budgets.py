"""The response to a request that a budget refuses.

Belongs here: status, code, when to retry. Does not belong here: limits (`config.sections`), the mapping of errors
(`errors`).
"""

from __future__ import annotations

from rag_serving.api.wire import RequestError
from rag_serving.hooks import BudgetError, BudgetsAwayError

BUDGETS_AWAY = "what was used of the budget cannot be looked up at the moment, and nothing is done without that"
_RETRY_AFTER_S = 30


def budget_refusal(error: BudgetError | BudgetsAwayError) -> RequestError:
    """Return the caller's error: 429 with the seconds until the budget renews, or 503."""
    if isinstance(error, BudgetError):
        return RequestError(429, "BUDGET_EXCEEDED", str(error), retry_after=error.retry_after_s)
    return RequestError(503, "UNAVAILABLE", BUDGETS_AWAY, retry_after=_RETRY_AFTER_S)
