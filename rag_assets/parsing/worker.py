"""The process that parses: `python -m rag_assets.parsing.worker`, one document after the other.

Belongs here: calling the pure functions of `rag_assets.steps` for requests.
Does not belong here: limits and the loop (`rag_serving.isolation.serving`), starting and ending this process
(`rag_serving.isolation.child`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Any

from rag_assets.parsing.outcomes import outcome
from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.records import OcrPage, OcrWord
from rag_assets.steps.formats.blocks import content_to_json
from rag_assets.steps.formats.budget import Budget
from rag_assets.steps.formats.exported_page import exported_index, exported_page
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.isolation.child import Frame, Limits
from rag_serving.isolation.serving import report, run


def _answer(request: Frame, requests: IO[bytes]) -> Frame:
    facts = request.facts
    limits, budget = Limits(*facts["limits"]), Budget(*facts["budget"])
    return Frame(outcome(limits, requests, lambda: _DOING[facts["do"]](facts, request.content, budget)))


def _content(facts: Mapping[str, Any], body: bytes, budget: Budget) -> Any:
    content = DirectReader(budget).content(_text(body), facts["format"], facts["lists"])
    return content_to_json(content)


def _excerpt(facts: Mapping[str, Any], body: bytes, budget: Budget) -> Any:
    return content_to_json(DirectReader(budget).excerpt(_text(body), facts["name"]))


def _properties(_facts: Mapping[str, Any], body: bytes, budget: Budget) -> Any:
    return DirectReader(budget).properties(_text(body))


def _attachment(facts: Mapping[str, Any], content: bytes, budget: Budget) -> Any:
    recognized = {page: OcrPage(page, tuple(OcrWord(*word) for word in words)) for page, words in facts["recognized"]}
    if recognized:
        return pdf_text(content, budget, report, recognized)
    return file_text(facts["name"], content, budget, report)


def _exported_page(_facts: Mapping[str, Any], content: bytes, _budget: Budget) -> Any:
    return exported_page(content)


def _exported_index(_facts: Mapping[str, Any], content: bytes, _budget: Budget) -> Any:
    return exported_index(content)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass")


_DOING: Mapping[str, Callable[[Mapping[str, Any], bytes, Budget], Any]] = MappingProxyType(
    {
        "content": _content,
        "excerpt": _excerpt,
        "properties": _properties,
        "attachment": _attachment,
        "exported_page": _exported_page,
        "exported_index": _exported_index,
    }
)


if __name__ == "__main__":
    run(_answer, ("lxml.html", "markdown_it", "bs4.dammit"))
