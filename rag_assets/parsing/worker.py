"""The process that parses: `python -m rag_assets.parsing.worker`, one document after the other; how it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any

from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.records import FileError, OcrPage, OcrWord
from rag_assets.steps.formats.blocks import Budget, content_to_json
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.html import exported_index, exported_page
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.isolation.child import Frame, Limits, ParseError
from rag_serving.isolation.serving import report, run, within_limits


def outcome(limits: Limits, requests: IO[bytes], work: Callable[[], Any]) -> dict[str, Any]:
    """Return the facts of an answer: the result of `work` within the limits, or the reason for its failure. `requests`:
    the stream of the request; if the other side closes it, the process ends."""
    try:
        with within_limits(limits, requests):
            return {"result": work()}
    except (PageError, FileError) as error:
        return {"reason": " ".join(str(error).split())}
    except ImportError as error:
        return {"missing": error.name or str(error)}
    except MemoryError:
        return {"memory": True}
    except RecursionError:
        return {"reason": "it is nested too deep"}
    except Exception as error:  # a fault in one document is reported; the others still arrive
        return {"reason": " ".join(f"unexpected {type(error).__name__}: {error}"[:300].split())}


def result_of(facts: Mapping[str, Any], limits: Limits) -> Any:
    """Return an answer's result. Raises ParseError: it has none, with its reason. Raises ImportError: the document's
    reader is not installed; `name` is the module's."""
    if facts.get("memory"):
        raise ParseError(limits.too_large())
    if missing := facts.get("missing"):
        raise ImportError(f"{missing} is not installed", name=str(missing))
    if "result" not in facts:
        raise ParseError(str(facts.get("reason", "its parser failed")))
    return facts["result"]


def _answer(request: Frame, requests: IO[bytes]) -> Frame:
    limits, budget = Limits(*request.facts["limits"]), Budget(*request.facts["budget"])
    return Frame(outcome(limits, requests, lambda: _result(request.facts, request.content, budget)))


def _result(facts: Mapping[str, Any], content: bytes, budget: Budget) -> Any:
    reader = DirectReader(budget)
    match facts["do"]:
        case "attachment":
            recognized = {
                page: OcrPage(page, tuple(OcrWord(*word) for word in words)) for page, words in facts["recognized"]
            }
            if recognized:
                return pdf_text(content, budget, report, recognized)
            return file_text(facts["name"], content, budget, report)
        case "exported_page":
            return exported_page(content)
        case "exported_index":
            return exported_index(content)
    body = content.decode("utf-8", "surrogatepass")
    match facts["do"]:
        case "content":
            return content_to_json(reader.content(body, facts["format"], facts["lists"]))
        case "excerpt":
            return content_to_json(reader.excerpt(body, facts["name"]))
        case _:
            return reader.properties(body)


if __name__ == "__main__":
    run(_answer, ("lxml.html", "markdown_it", "bs4.dammit"))
