"""An agent that answers from passages alone: a model calls `search` and `get_passage` until it can answer.

    python examples/agent_loop.py "How long can a release be rolled back?"

The model is scripted (`scripted_model.py`) unless OPENAI_BASE_URL or OPENAI_API_KEY names a real one, with its name in
MODEL. The grounding prompt is the server's own (`grounded_answer`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import ExitStack
from typing import Any

from citelock_tools import citelock
from mcp import Client
from openai import AsyncOpenAI
from scripted_model import REFUSAL, scripted_model

TOOLS = ("search", "get_passage")
MOST_STEPS = 8


async def main(question: str) -> str:
    """Return the agent's answer."""
    with ExitStack() as stack:
        options: dict[str, Any] = {}
        if not {"OPENAI_BASE_URL", "OPENAI_API_KEY"} & os.environ.keys():
            options = {"base_url": stack.enter_context(scripted_model()), "api_key": "none"}
        async with AsyncOpenAI(**options) as model, citelock() as client:
            return await answer(client, model, question)


async def answer(client: Client, model: AsyncOpenAI, question: str) -> str:
    """Let the model call tools, at most so many times, and return what it says then."""
    prompt = await client.get_prompt("grounded_answer", {"question": question})
    messages: list[Any] = [{"role": "user", "content": prompt.messages[0].content.text}]
    tools = [as_function(tool) for tool in (await client.list_tools()).tools if tool.name in TOOLS]
    seen: list[str] = []
    for _ in range(MOST_STEPS):
        reply = await model.chat.completions.create(
            model=os.environ.get("MODEL", "scripted"), messages=messages, tools=tools
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return grounded(message.content or "", seen)
        for call in message.tool_calls:
            told = await called(client, call.function.name, call.function.arguments)
            print(f"  {call.function.name}({call.function.arguments})", file=sys.stderr)
            seen.append(told)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
    return REFUSAL


async def called(client: Client, name: str, arguments: str) -> str:
    """Return what a tool says as JSON; only the tools of this agent can be called, whatever a page or a model wants."""
    if name not in TOOLS:
        return json.dumps({"error": f"there is no tool {name}"})
    try:
        result = await client.call_tool(name, json.loads(arguments))
    except ValueError as error:
        return json.dumps({"error": str(error)})
    if result.is_error:
        return json.dumps({"error": result.content[0].text})
    return json.dumps(result.structured_content)


def grounded(text: str, seen: list[str]) -> str:
    """Return the answer where every link in it is of a passage that was read; else the refusal."""
    links = re.findall(r"https?://[^\s)\]>]+", text)
    has_sources = bool(links) and all(any(json.dumps(link)[1:-1] in told for told in seen) for link in links)
    return text if has_sources or text.strip() == REFUSAL else REFUSAL


def as_function(tool: Any) -> dict[str, Any]:
    """Return a tool as chat models are told of it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


if __name__ == "__main__":
    print(asyncio.run(main(" ".join(sys.argv[1:]) or "How long can a release be rolled back?")))
