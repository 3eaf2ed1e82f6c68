"""Whether a receipt still holds: its verification once more, without a model, and what has changed since.

Belongs here: comparing a receipt with the generation it names, and with the published one.
Does not belong here: storing and signing (`store`), who may see it (`proofs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from rag_serving.answering.gates import CLOSEST
from rag_serving.answering.lock import has_anchor
from rag_serving.answering.verification.quotes import find_exact
from rag_serving.answering.verification.verifier import VerificationRules, verify, without_doubted
from rag_serving.receipts.files import Files, file_faults, page_faults
from rag_serving.receipts.receipt import READ_VERSIONS, text_hash
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.flags import CLOSEST_PASSAGE
from rag_serving.records.passages import Candidate, Chunk, Lock

Receipt = Mapping[str, Any]


class Pages(Protocol):
    """The pages of a generation, all of them or those of one reader."""

    def chunks_of_page(self, page_id: str) -> Sequence[Chunk]: ...

    def row_of(self, chunk_id: str) -> int | None: ...


class Archive(Pages, Files, Protocol):
    """The passages and files of a generation, all of them or those of one reader."""

    def chunk(self, row: int) -> Chunk: ...


_NUMBERED_BY_PLACE = 2  # the version whose citations are numbered by their places in the lock
_SENTENCES_CHECKED = 4  # the first version whose sentences were compared with their passages word by word
_WITH_OUTCOME = 7  # the first version that says whether an answer was told with confidence
_REWORDED = 6  # the first version whose sentences could be carried in another construction
_COMPARED = ("outcome", "index", "start", "end", "support", "shown", "carried")
_UNCHECKED = "sentences: version {} did not compare each with its passages; ask the question again"


def faults(receipt: Receipt, generation: Archive, question_fault: Callable[[Receipt], str | None]) -> list[str]:
    """Return what does not hold of a receipt, a line each that begins with the part; empty when it is proved.

    `generation` is the stored generation that the receipt names; `question_fault` compares the question with its
    digest. The receipt may be anything that JSON can say.
    """
    if receipt.get("version") not in READ_VERSIONS:
        known = " and ".join(map(str, READ_VERSIONS))
        return [f"receipt: it has version {receipt.get('version')!r}, this program reads version {known}"]
    try:
        passages = [_passage(passage, generation) for passage in receipt["passages"]]
        texts = [passage for passage in passages if isinstance(passage, str)]
        chunks = [passage for passage in passages if isinstance(passage, Chunk)]
        if fault := question_fault(receipt):
            texts.append(fault)
        if texts:
            return texts
        lock = Lock(tuple(Candidate(chunk, 0.0) for chunk in chunks))
        if receipt["version"] < _SENTENCES_CHECKED:
            return [*_citation_faults(receipt, lock), _UNCHECKED.format(receipt["version"])]
        of_files = [*page_faults(receipt, lock), *file_faults(receipt, generation)]
        return [*_citation_faults(receipt, lock), *of_files, *_verdict_faults(receipt, lock), *_outcome_faults(receipt)]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return [f"receipt: it cannot be read ({type(error).__name__}: {error})"]


def changes(receipt: Receipt, published: Pages) -> list[str]:
    """Return what is otherwise in the published generation than when the answer was given, a line each.

    A receipt holds whatever changed since; this tells whether the answer may be out of date.
    """
    differences = []
    for passage in receipt["passages"]:
        page_id, index = passage["page_id"], passage["index"]
        versions = {chunk.version for chunk in published.chunks_of_page(page_id)}
        if not versions:
            differences.append(f"passage [{index}]: page {page_id} is not published any more")
        elif passage["page_version"] not in versions:
            differences.append(
                f"passage [{index}]: page {page_id} is now version {max(versions)}, it was {_version(passage)}"
            )
        elif published.row_of(passage["chunk_id"]) is None:
            differences.append(f"passage [{index}]: chunk {passage['chunk_id']} is not published any more")
    return [*differences, *_lost_quotes(receipt, published)]


def _version(passage: Mapping[str, Any]) -> str:
    return str(passage["page_version"])


def _lost_quotes(receipt: Receipt, published: Pages) -> Iterator[str]:
    """Yield the quotes that stand nowhere on their pages any more; a quote may go over the border of two chunks."""
    pages = {passage["chunk_id"]: passage["page_id"] for passage in receipt["passages"]}
    for citation in receipt["citations"]:
        page_id = pages[citation["chunk_id"]]
        chunks = published.chunks_of_page(page_id)
        texts = [*(chunk.text for chunk in chunks), "\n".join(chunk.text for chunk in chunks)]
        if not any(citation["quote"] in text or find_exact(citation["quote"], text) for text in texts):
            yield f"citation [{citation['index']}]: the quote stands on page {page_id} no more"


def _passage(passage: Mapping[str, Any], generation: Archive) -> Chunk | str:
    """Return the chunk of a locked passage as it was, or what is wrong with it."""
    what = f"passage [{passage['index']}]: chunk {passage['chunk_id']}"
    row = generation.row_of(passage["chunk_id"])
    if row is None:
        return f"{what} is not in the generation"
    chunk = generation.chunk(row)
    if text_hash(chunk.text) != passage["text_hash"] or chunk.version != passage["page_version"]:
        return f"{what} has another text or version"
    return chunk


def _citation_faults(receipt: Receipt, lock: Lock) -> Iterator[str]:
    places = [(v["index"], v["start"], v["end"]) for v in receipt["verdicts"] if v["outcome"] != "dropped"]
    numbers = _numbers(receipt, [index for index, _, _ in places])
    for citation in receipt["citations"]:
        index, start, end = citation["index"], citation["start"], citation["end"]
        cited = index if receipt["version"] == _NUMBERED_BY_PLACE else citation["passage"]
        passage = lock.passage(cited)
        if passage is None or passage.chunk.chunk_id != citation["chunk_id"]:
            yield f"citation [{index}]: chunk {citation['chunk_id']} was not in the lock"
        elif not citation["quote"] or passage.chunk.text[start:end] != citation["quote"]:
            yield f"citation [{index}]: the quote does not stand at its offsets"
        elif not any(place == cited and first < end and start < last for place, first, last in places):
            yield f"citation [{index}]: no verdict bears it out"
        elif numbers[cited] != index:
            yield f"citation [{index}]: the answer cites passage {cited} as [{numbers[cited]}]"
        elif not has_anchor(citation["url"]):
            yield f"citation [{index}]: the link has no anchor"


def _outcome_faults(receipt: Receipt) -> Iterator[str]:
    """Yield where what was shown as the closest could be taken for a confident answer, or cites nothing."""
    if receipt["version"] < _WITH_OUTCOME:
        return
    is_closest, is_shown = receipt["outcome"] == "closest", receipt["outcome"] != "none"
    if is_closest != (CLOSEST_PASSAGE in receipt["flags"]) or is_closest != receipt["answer"].startswith(CLOSEST):
        yield "outcome: flag and first line do not say whether these are only the closest passages"
    if is_shown != bool(receipt["citations"]) or is_shown != (receipt["status"] == "answered"):
        yield f"outcome: {receipt['outcome']} with status {receipt['status']}, {len(receipt['citations'])} citations"


def _numbers(receipt: Receipt, cited: Iterable[int]) -> dict[int, int]:
    """Return the numbers of the cited passages: by their first appearance, in older receipts by their place."""
    if receipt["version"] == _NUMBERED_BY_PLACE:
        return {passage: passage for passage in cited}
    return {passage: number for number, passage in enumerate(dict.fromkeys(cited), start=1)}


def _verdict_faults(receipt: Receipt, lock: Lock) -> Iterator[str]:
    """Yield the verdicts that verification does not reach once more.

    What an older version showed as a quotation is held to be one, though its sentence would be carried by now.
    """
    noted: Sequence[Mapping[str, Any]] = receipt["verdicts"]
    draft = Draft(
        tuple(Claim(v["sentence"], v["cited"], v["quote"], tuple(v["others"])) for v in noted), receipt["generator"]
    )
    reached = verify(draft, lock, receipt["question"], VerificationRules(**receipt["rules"]))
    is_older = receipt["version"] < _REWORDED
    # a receipt of an older version does not say what a model judged
    judged = (
        replace(now, judged=False if is_older and then["support"] != "carried" else then.get("judged"))
        for then, now in zip(noted, reached, strict=True)
    )
    replayed = without_doubted([*judged], lock)
    compared = _COMPARED[:-1] if is_older else _COMPARED  # the words were paired in another way
    for number, (then, now) in enumerate(zip(noted, replayed, strict=True), start=1):
        if [then[name] for name in compared] != _reached(now)[: len(compared)]:
            yield f"verdict {number}: it was {then['outcome']} ({then['reason']}), is now {now.outcome} ({now.reason})"


def _reached(verdict: Verdict) -> list[Any]:
    """Return what a receipt notes of a verdict, in the order of `_COMPARED`."""
    carried = [[word.word, word.by, word.how] for word in verdict.carried]
    return [verdict.outcome, verdict.index, verdict.start, verdict.end, verdict.support, verdict.told, carried]
