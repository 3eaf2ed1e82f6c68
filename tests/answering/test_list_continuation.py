"""Steps that run on from one passage into the next."""

from __future__ import annotations

from collections.abc import Callable

from support.passages import chunk_of, chunks_of_section

from rag_serving.answering.citations import answer_text
from rag_serving.answering.lock import completed
from rag_serving.answering.selection.completion import runs_on
from rag_serving.answering.selection.selector import select
from rag_serving.answering.verification import verify
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.text.analyzer import analyze

QUESTION = "How do I restart the broker?"
PARTS = (
    "Do this:\n\n1. Tell the desk that you restart.\n2. Stop the broker service.",
    "3. Wait until the log is quiet.\n4. Start the broker service.",
    "5. Tell the desk that it is over.\n\nThen go home.",
)
CHUNKS = chunks_of_section(PARTS)


def beside(chunks: list[Chunk]) -> Callable[[Chunk, int], Chunk | None]:
    known = {chunk.chunk_idx: chunk for chunk in chunks}
    return lambda chunk, direction: known.get(chunk.chunk_idx + direction)


def locked(*chunks: Chunk) -> Lock:
    return Lock(tuple(Candidate(chunk, 1.0) for chunk in chunks))


def test_steps_run_on_with_the_next_number_of_the_same_section() -> None:
    assert runs_on(CHUNKS[0], CHUNKS[1])
    assert runs_on(CHUNKS[1], CHUNKS[2])
    assert not runs_on(CHUNKS[0], CHUNKS[2])
    assert not runs_on(CHUNKS[2], chunk_of("6. Another list.", "1:1:3"))
    elsewhere = chunks_of_section(PARTS, anchor="Stop", heading_path=("Broker guide", "Stop"))
    assert not runs_on(CHUNKS[0], elsewhere[1])
    assert not runs_on(*chunks_of_section([PARTS[0], "\nAgain:\n\n1. Begin anew.\n2. Go on."]))


def test_the_lock_is_completed_by_the_rest_of_its_steps_at_its_end() -> None:
    other = chunk_of("Brokers are restarted at night.", "2:1:0")
    lock = completed(locked(CHUNKS[1], other), beside(CHUNKS))
    assert [each.chunk.chunk_id for each in lock.passages] == ["1:1:1", "2:1:0", "1:1:0", "1:1:2"]


def test_what_may_not_be_read_completes_nothing() -> None:
    lock = completed(locked(CHUNKS[0]), beside([CHUNKS[0], CHUNKS[2]]))
    assert [each.chunk.chunk_id for each in lock.passages] == ["1:1:0"]


def test_all_steps_are_told_in_order_each_part_under_its_own_citation() -> None:
    lock = completed(locked(CHUNKS[1]), beside(CHUNKS))
    draft = select(QUESTION, lock, dict.fromkeys(analyze(QUESTION), 1.0), analyze)
    verdicts = verify(draft, lock, question=QUESTION)
    assert answer_text(verdicts, lock) == (
        "Do this:\n1. Tell the desk that you restart.\n2. Stop the broker service. [1]\n\n"
        "3. Wait until the log is quiet.\n4. Start the broker service. [2]\n\n"
        "5. Tell the desk that it is over. [3]"
    )


def test_steps_in_the_middle_of_a_passage_are_not_joined_with_others() -> None:
    texts = ("1. Stop the broker service.\n2. Start the broker service.\n\nThat is all.", PARTS[1])
    lock = locked(*chunks_of_section(texts))
    assert completed(lock, beside([each.chunk for each in lock.passages])) == lock
