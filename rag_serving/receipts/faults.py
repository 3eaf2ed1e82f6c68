"""The faults of a receipt against the generation that it names, and how its passages have changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rag_serving.answering.comparing.typed import other_values
from rag_serving.answering.gates import CLOSEST
from rag_serving.answering.lock import has_anchor
from rag_serving.answering.quotes import find_exact
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.artifacts.store import StoreError
from rag_serving.indexes.originals import Original
from rag_serving.receipts.receipt import READ_VERSIONS, text_hash
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.flags import CLOSEST_PASSAGE
from rag_serving.records.passages import Candidate, Chunk, Lock, ocr_told, page_told

Receipt = Mapping[str, Any]


class Pages(Protocol):
    """The pages of a generation, all of them or those of one reader."""

    def chunks_of_page(self, page_id: str) -> Sequence[Chunk]: ...

    def row_of(self, chunk_id: str) -> int | None: ...


class PageFiles(Protocol):
    """The source of pages' files: a generation."""

    @property
    def shows_all(self) -> bool:
        """Return whether every existing file is shown."""
        ...

    def original(self, page_id: str) -> Original | None: ...


class Archive(Pages, PageFiles, Protocol):
    """The passages and files of a generation, all of them or those of one reader."""

    def chunk(self, row: int) -> Chunk: ...


_NUMBERED_BY_PLACE = 2  # the version whose citations are numbered by their places in the lock
_OWN_WORDS = 9  # the first version whose sentences are the page's own words or replaced by them
_COMPARED = ("outcome", "index", "start", "end", "support", "shown")
_UNREAD = "sentences: version {} compared them by rules that are gone; the quotes hold. Ask the question again"


def faults(receipt: Receipt, generation: Archive, question_fault: Callable[[Receipt], str | None]) -> list[str]:
    """Return the faults of a receipt, one per line that begins with the part; empty when it is proved. `generation` is
    the stored generation that the receipt names; `question_fault` compares the question with its digest. The receipt
    may be any JSON value."""
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
        found = [*_citation_faults(receipt, lock), *page_faults(receipt, lock), *file_faults(receipt, generation)]
        if receipt["version"] < _OWN_WORDS:
            return [*found, _UNREAD.format(receipt["version"])]
        return [*found, *_verdict_faults(receipt, lock), *difference_faults(receipt), *_outcome_faults(receipt)]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return [f"receipt: it cannot be read ({type(error).__name__}: {error})"]


def changes(receipt: Receipt, published: Pages) -> list[str]:
    """Return the differences of the published generation from the answer's, one per line. A receipt stays valid
    whatever changed; this shows whether the answer may be out of date."""
    differences = []
    for passage in receipt["passages"]:
        page_id, index = passage["page_id"], passage["index"]
        versions = {chunk.version for chunk in published.chunks_of_page(page_id)}
        if not versions:
            differences.append(f"passage [{index}]: page {page_id} is not published any more")
        elif passage["page_version"] not in versions:
            differences.append(
                f"passage [{index}]: page {page_id} is now version {max(versions)}, it was {passage['page_version']}"
            )
        elif published.row_of(passage["chunk_id"]) is None:
            differences.append(f"passage [{index}]: chunk {passage['chunk_id']} is not published any more")
    return [*differences, *_lost_quotes(receipt, published)]


def _lost_quotes(receipt: Receipt, published: Pages) -> Iterator[str]:
    """Yield the quotes that are nowhere on their pages any more; a quote may cross the border of two chunks."""
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
    is_closest, is_shown = receipt["outcome"] == "closest", receipt["outcome"] != "none"
    if is_closest != (CLOSEST_PASSAGE in receipt["flags"]) or is_closest != receipt["answer"].startswith(CLOSEST):
        yield "outcome: flag and first line do not say whether these are only the closest passages"
    cites = bool(receipt["citations"]) or "set" in receipt
    if is_shown != cites or is_shown != (receipt["status"] == "answered"):
        yield f"outcome: {receipt['outcome']} with status {receipt['status']}, {len(receipt['citations'])} citations"


def _numbers(receipt: Receipt, cited: Iterable[int]) -> dict[int, int]:
    """Return the numbers of the cited passages: by their first appearance, in older receipts by their place."""
    if receipt["version"] == _NUMBERED_BY_PLACE:
        return {passage: passage for passage in cited}
    return {passage: number for number, passage in enumerate(dict.fromkeys(cited), start=1)}


def _verdict_faults(receipt: Receipt, lock: Lock) -> Iterator[str]:
    """Yield the verdicts that verification does not reach once more."""
    noted: Sequence[Mapping[str, Any]] = receipt["verdicts"]
    claims = (Claim(v["sentence"], v["cited"], v["quote"], tuple(v["others"]), v["selected"]) for v in noted)
    draft = Draft(tuple(claims), receipt["generator"])
    reached = verify(draft, lock, receipt["question"], VerificationRules(**receipt["rules"]))
    for number, (then, now) in enumerate(zip(noted, reached, strict=True), start=1):
        found = [now.outcome, now.index, now.start, now.end, now.support, now.told]
        if [then[name] for name in _COMPARED] != found:
            yield f"verdict {number}: it was {then['outcome']} ({then['reason']}), is now {now.outcome} ({now.reason})"


def difference_faults(receipt: Receipt) -> Iterator[str]:
    """Yield the values by which a claim and the words that it is shown beside were said to differ, and do not."""
    for noted in receipt.get("differences", ()):
        verdict, values = receipt["verdicts"][noted["verdict"] - 1], {**noted}
        del values["verdict"]
        if values not in other_values(verdict["sentence"], verdict["quote"]):
            said, page = noted["claim"]["said"], noted["page"]["said"]
            yield f"verdict {noted['verdict']}: {said!r} and {page!r} are no values of it that differ"


WITH_PAGES = 8
"""The first version of a receipt that notes files, and how quotes of paged documents were read."""


def file_faults(receipt: Receipt, files: PageFiles) -> Iterator[str]:
    """Yield where the file of a cited page is not the noted one, is missing or was altered; its bytes are read."""
    for passage in receipt["passages"]:
        noted, what = passage.get("file"), f"file [{passage['index']}]"
        if not noted or ((original := files.original(passage["page_id"])) is None and not files.shows_all):
            continue
        if original is None:
            yield f"{what}: the generation has no file of page {passage['page_id']}"
        elif original.digests() != noted:
            yield f"{what}: it has SHA-256 {original.sha256}, noted is {noted.get('sha256')}"
        else:
            try:
                original.read()
            except StoreError:
                yield f"{what}: it is missing or was altered"


def page_faults(receipt: Receipt, lock: Lock) -> Iterator[str]:
    """Yield the citations that name another page than their quote's, or lack the confidence of OCR."""
    if receipt["version"] < WITH_PAGES:
        return
    for citation in receipt["citations"]:
        what, passage = f"citation [{citation['index']}]", lock.passage(citation["passage"])
        if passage is None:
            continue
        chunk, start, end = passage.chunk, citation["start"], citation["end"]
        page, read = chunk.page_at(start), chunk.ocr_confidence(start, end)
        if page is not None and citation["page"] != page:
            yield f"{what}: it names page {citation['page']}, the quote stands on page {page}"
        if citation["ocr_confidence"] != read or (citation["verification"] == "ocr") != (read is not None):
            yield f"{what}: it does not say how sure OCR was of the quote ({read})"


def proved_lines(receipt: Receipt) -> Iterator[str]:
    """Yield what a valid receipt proves of each quote of a paged document, in one line."""
    files = {passage["index"]: passage.get("file") for passage in receipt["passages"]}
    for citation in receipt["citations"]:
        if not citation.get("page"):
            continue
        read = citation.get("ocr_confidence")
        said = f"citation [{citation['index']}]: the quote stands in the stored text of "
        said += page_told(citation["page"], citation.get("page_label"))
        said += f", read by {ocr_told(read)}" if read is not None else ""
        if file := files.get(citation.get("passage")):
            said += f"; the file has SHA-256 {file['sha256']}"
            received = file.get("received_sha256")
            said += f", made searchable from one with SHA-256 {received}" if received else ""
        yield said
