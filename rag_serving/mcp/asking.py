"""The tool that answers, and the one that proves an answer: ask, verify_receipt.

Belongs here: what they do for their caller. Does not belong here: answering (`ask`), the shapes (`mcp.results`).
"""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent

from rag_serving.answering.markdown import markdown
from rag_serving.conversations.turns import conversation_of
from rag_serving.mcp.arguments import FilterArguments, History, QuestionText, ReceiptId
from rag_serving.mcp.callers import Caller
from rag_serving.mcp.calls import Calls
from rag_serving.mcp.reading import bounded
from rag_serving.mcp.results import AnswerOutput, ProofOutput, answer_of
from rag_serving.tracing import Listen


class AskingTools:
    """Tools around an answer."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def ask(
        self,
        question: QuestionText,
        context: Context,
        history: History | None = None,
        filters: FilterArguments | None = None,
    ) -> Annotated[CallToolResult, AnswerOutput]:
        """Return the answer as Markdown, and whole as structured content."""

        def work(caller: Caller, listen: Listen) -> AnswerOutput:
            text = bounded(question, caller)
            narrowed = filters.parsed() if filters else None
            conversation = conversation_of((turn.role, turn.content) for turn in history or ())
            answer = caller.pipeline.ask(caller.principal, text, narrowed, listen=listen, conversation=conversation)
            if answer.status == "unavailable":
                raise ToolError(answer.answer)
            return answer_of(text, answer, markdown(answer))

        output = await self._calls.answer(context, work)
        return CallToolResult(
            content=[TextContent(type="text", text=output.markdown)],
            structured_content=output.model_dump(mode="json"),
        )

    async def verify_receipt(self, receipt_id: ReceiptId, context: Context) -> ProofOutput:
        """Return whether the receipt of an answer holds, for who may see it."""

        def work(caller: Caller) -> ProofOutput:
            caller.pipeline.receipt(caller.principal, receipt_id)  # refuses who may not see it
            return ProofOutput.model_validate(caller.pipeline.proof(receipt_id, caller.principal).payload())

        return await self._calls.run(context, work)
