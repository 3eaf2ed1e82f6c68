"""Whether the passages that a sentence cites carry it, word by word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.answering.verification.support import Sentences, missing_words, supported, without_frame

PASSAGE = """Backups are kept for 33 days in vault 3.
You must not restart a broker while partitions are under-replicated.
A release can be rolled back for 14 days after it went live. Releases are approved by the release manager.
An alert fires when the lag stays above 10,000 records for five minutes. The retention of audit logs is 90 days.
Restores without a ticket are never done; they take 1.5 hours on average. If the lag stays high, restart the consumer.
Mail goes from the gateway to the archive. The vault deletes the copies because the contract ends.

| Setting | Default | Unit |
|---|---|---|
| max.poll.records | 500 | records |

- Owner: Platform team
"""
CITED = [(1, Sentences(PASSAGE, "Backups"))]


@pytest.mark.parametrize(
    "sentence",
    [
        "Backups are kept for 33 days in vault 3.",
        "According to the page, the backups are kept in vault 3 for 33 days.",
        "You mustn't restart a broker while partitions are under-replicated.",
        "A broker must not be restarted while partitions are under-replicated.",
        "While partitions are under-replicated, you must not restart brokers.",
        "You can roll back a release for 14 days after it went live.",
        "The release manager approves releases.",
        "When the lag stays above 10000 records for 5 minutes, an alert fires.",
        "The audit log retention is 90 days.",
        "Restart the consumer if the lag stays high.",
        "The default of max.poll.records is 500.",
        "`max.poll.records` is 500 by default.",
        "The owner is the Platform team.",
        "Backups are kept for 33 days in vault 3; the release manager approves releases.",
        "Yes, releases are approved by the release manager.",
    ],
)
def test_a_sentence_that_says_the_same_is_carried(sentence: str) -> None:
    assert supported(sentence, CITED)


@pytest.mark.parametrize(
    "sentence",
    [
        "Backups are wiped every night.",
        "Backups are kept for 33 days.",  # where they are kept is left out
        "Backups are kept for 33 hours in vault 3.",
        "Backups were kept for 33 days in vault 3.",
        "All backups are kept for 33 days in vault 3.",
        "Backups are kept for at least 33 days in vault 3.",
        "Backups must be kept for 33 days in vault 3.",
        "Backups are kept for 33 days in vault 4.",
        "You must restart a broker while partitions are under-replicated.",
        "You must not restart a broker.",
        "Restart a broker while partitions are under-replicated.",
        "Restart the broker.",
        "Releases approve the release manager.",
        "The release manager is approved by releases.",
        "The release manager is approved.",
        "An alert stays above 10,000 records when the lag fires for five minutes.",
        "An alert fires.",
        "Restores without a ticket are done.",
        "They take 1.5 hours on average.",  # only with a ticket
        "The lag stays high if you restart the consumer.",
        "Mail goes from the archive to the gateway.",
        "The contract ends because the vault deletes the copies.",
        "The copies delete the vault because the contract ends.",
        "The default of max.poll.records is 500 records for the Platform team.",
        "The default of max.poll.interval is 500.",
        "The owner is not the Platform team.",
        "Backups are kept for 33 days in vault 3; the vault is wiped every night.",
        "Releases are kept for 33 days in vault 3.",
        "You may restart a broker while partitions are under-replicated.",
        "33 days",
    ],
)
def test_a_sentence_that_says_something_else_is_not(sentence: str) -> None:
    assert supported(sentence, CITED) is None


def test_each_word_names_what_carries_it() -> None:
    support = supported("According to the docs, a backup is kept in vault 3 for 33 days.", CITED)
    assert support is not None
    assert support.passages == (1,)
    assert [(word.word, word.by, word.how) for word in support.words] == [
        ("backup", "Backups", "inflection"),
        ("kept", "kept", "exact"),
        ("for", "for", "exact"),
        ("33 days", "33 days", "figure"),
        ("in", "in", "exact"),
        ("vault", "vault", "exact"),
        ("3", "3", "figure"),
    ]


@pytest.mark.parametrize(
    "passage", ["Logs of log.max.bytes () stay.", "Set log.max.bytes ( ) to 5.", "Set log.max.bytes ("]
)
def test_brackets_with_nothing_in_them_are_no_fault(passage: str) -> None:
    assert supported(passage, [(1, Sentences(passage))])


def test_free_words_may_be_added_but_not_without_end() -> None:
    assert supported("The backups are then kept for 33 days in the vault 3.", CITED)
    assert not supported("A: A: A: A: Backups are kept for 33 days in vault 3.", CITED)


def test_words_that_no_passage_has_are_named() -> None:
    said = "Backups are wiped at night in vault 3."
    assert missing_words(said, [CITED[0][1]]) == ["wiped", "at", "night"]


def test_a_sentence_may_join_what_two_passages_say_but_not_mix_it() -> None:
    cited = [(1, Sentences("The vault is emptied on Mondays.")), (2, Sentences("The archive is copied to Lyon."))]
    joined = supported("The vault is emptied on Mondays, and the archive is copied to Lyon.", cited)
    assert joined is not None
    assert joined.passages == (1, 2)
    assert supported("The vault is copied to Lyon.", cited) is None
    assert supported("The vault is emptied on Mondays because the archive is copied to Lyon.", cited) is None


@pytest.mark.parametrize(
    ("passage", "lie"),
    [
        ("Are backups deleted after a day?", "Backups are deleted after a day."),  # a question claims nothing
        ("Do not:\n\n- restart the broker\n- erase the disk", "Restart the broker."),
        ("If the vault is sealed:\n\n- call the officer\n- erase the disk", "Erase the disk."),
        ("Never do this:\n\n1. Erase the disk. It is fast.", "Erase the disk."),
        ("## What not to do\n\n- Erase the disk", "Erase the disk."),
        ("Myth: the disk erases itself.", "The disk erases itself."),
        ("The vendor claims that the disk is fast; the network is free.", "The network is free."),
        ("The gateway has a proxy.", "The gateway is a proxy."),
        ("The gateway is a proxy.", "The gateway has a proxy."),
        ("The disk has been moved.", "The disk is being moved."),
        ("She reports to him.", "He reports to her."),
        ("It erases them.", "They erase it."),
        ("It erases the disk.", "You erase the disk."),
        ("The guard checks the door, and erases the disk.", "Erase the disk."),
        ("Disks that are slow and are old are erased.", "Disks are slow."),
        ("Disks that are slow and are old are erased.", "Disks are erased."),
        ("If the disk is slow and is old, erase it.", "The disk is slow."),
        ("The disk is public and is erased unless the owner objects.", "The disk is erased."),
        ("The disk is public and is logged if the owner agrees.", "The disk is public."),
        ("After a release, erase the disk; the cache is kept.", "The cache is kept."),
        ("Guests may use the printer, but only on Mondays.", "Guests may use the printer."),
        ("Guests may use the printer; this is only allowed on Mondays.", "Guests may use the printer."),
        ("Guests may use the printer, which must be booked.", "Guests may use the printer."),
        ("Guests may use the printer (only on Mondays).", "Guests may use the printer."),
        ("The disk stops, while erasing the log.", "Erase the log."),
        ("Customers on the plan are called back.", 'Customers on the plan are called "back".'),
        ("No fee is charged.", "Fee is charged."),
        ("The gateway can be stopped and must be drained first.", "The gateway can be stopped."),
        ("Guests can enter the vault and are always accompanied by a guard.", "Guests can enter the vault."),
        ("The key is valid, which the vendor disputes.", "The key is valid."),
        ("The key is valid, so the vendor claims.", "The key is valid."),
        ("The vault is safe, because the vendor says so.", "The vault is safe."),
        ("The vault is safe; or so the vendor says.", "The vault is safe."),
        ("The vault is safe; that is a common mistake.", "The vault is safe."),
        ("The vault is safe: so they thought.", "The vault is safe."),
        ("The vault is safe - in theory.", "The vault is safe."),
        ("The vault is safe - at least on Mondays.", "The vault is safe."),
        ("Restart the vault: this is what attackers want.", "Restart the vault."),
        ("Restart the vault; wrong!", "Restart the vault."),
        ("Pay the invoice (approved ones).", "Pay the invoice."),
        ("Pay the invoice (a bad idea).", "Pay the invoice."),
        ("Rumour has it the vault is safe; the network is free.", "The network is free."),
        ("Every second vault is open.", "Second vault is open."),
        ("The vault is open, while the guard sleeps.", "The vault is open."),
        ("Either the door is open and the roof is shut or nothing works.", "The roof is shut."),
        ("A fee is charged.", "No fee is charged."),
        ("The disk will be erased.", "The disk is erased."),
        ("The guard decides when the door is locked.", "The guard decides if the door is locked."),
        ("The disk does not have to be erased.", "The disk must not be erased."),
        ("The bill is 200 EUR.", "The bill is USD 200."),
        ("The bill is 4.8 million EUR.", "The bill is 4.8 EUR."),
        ("The bill is 4.8 million EUR.", "The bill is EUR 4.8 billion."),
    ],
)
def test_what_a_part_would_lose_is_not_left_out(passage: str, lie: str) -> None:
    assert supported(lie, [(1, Sentences(passage))]) is None


@pytest.mark.parametrize(
    ("heading", "lie"), [("Gateway", "The gateway erases the disk."), ("What not to do", "Erase the disk.")]
)
def test_a_heading_is_no_subject_for_an_order_and_may_disown_what_stands_under_it(heading: str, lie: str) -> None:
    assert supported(lie, [(1, Sentences("Erase the disk.", heading))]) is None


@pytest.mark.parametrize(
    ("passage", "sentence"),
    [
        ("The job lags by ten seconds; the report is late.", "The report is late."),
        ("The key stays valid, so that tokens can be checked.", "The key stays valid."),
        ("The lamp is red and can be dimmed.", "The lamp can be dimmed."),
        ("The lamp is red and can be dimmed.", "The lamp is red."),
        ("Clauses 8 (secrecy) and 11 (damages) survive.", "Clauses 8 and 11 survive."),
        (
            "Objects are encrypted with:\n\n- AES at rest\n- TLS in transit",
            "Objects are encrypted with TLS in transit.",
        ),
        ("If the vault is sealed:\n\n- call the officer", "If the vault is sealed, call the officer."),
        ("If the disk fails, the cache is used.", "When the disk fails, the cache is used."),
        ("Costs fell by 3 percent, while revenue rose by 2 percent.", "Revenue rose by 2 percent."),
        ("The car has to be returned.", "The car must be returned."),
        ("The bill is 4.8 million EUR.", "The bill is EUR 4.8 million."),
        ("No fee is charged for the first copy.", "No fee is charged for the first copy."),
        ("Backups run every night.", "Backups run nightly."),
    ],
)
def test_what_may_be_left_out_is(passage: str, sentence: str) -> None:
    assert supported(sentence, [(1, Sentences(passage))])


@pytest.mark.parametrize("frame", ["The page says that ", "Note that ", "In short, ", "Yes, ", "According to [1]"])
def test_frames_are_not_looked_at(frame: str) -> None:
    assert without_frame(f"{frame}backups are kept").endswith("backups are kept")


NOUNS = ("gateway", "archive", "ticket", "cluster", "invoice", "printer", "contract", "partition")
VERBS = ("checks", "copies", "sends", "prints", "signs", "cleans")
ENDS = ("after 5 minutes", "in room 12", "for the owner", "when the queue is full", "with a badge", "on Mondays", "")
NEW = (
    "not",
    "never",
    "only",
    "all",
    "must",
    "may",
    "at least",
    "unless",
    "because",
    "17",
    "wiped",
    "usually",
    "before",
)


@st.composite
def facts(draw: st.DrawFn) -> tuple[str, list[str]]:
    subject, target = draw(st.lists(st.sampled_from(NOUNS), min_size=2, max_size=2, unique=True))
    sentence = f"The {subject} {draw(st.sampled_from(VERBS))} the {target} {draw(st.sampled_from(ENDS))}".strip()
    return sentence, sentence.split()


@given(facts(), st.sampled_from(NEW), st.integers(0, 12))
def test_nothing_that_counts_can_be_added(fact: tuple[str, list[str]], new: str, at: int) -> None:
    sentence, words = fact
    cited = [(1, Sentences(f"{sentence}."))]
    assert supported(sentence, cited)
    place = at % (len(words) + 1)
    assert supported(" ".join([*words[:place], new, *words[place:]]), cited) is None


@given(facts(), st.integers(0, 12))
def test_nothing_that_counts_can_be_left_out(fact: tuple[str, list[str]], at: int) -> None:
    sentence, words = fact
    place = at % len(words)
    rest = " ".join([*words[:place], *words[place + 1 :]])
    is_free = words[place].lower() in ("the", "a", "is")
    assert (supported(rest, [(1, Sentences(f"{sentence}."))]) is not None) is is_free


@given(facts())
def test_who_does_it_and_to_whom_cannot_be_exchanged(fact: tuple[str, list[str]]) -> None:
    sentence, words = fact
    swapped = [words[0], words[4], words[2], words[3], words[1], *words[5:]]
    assert supported(" ".join(swapped), [(1, Sentences(f"{sentence}."))]) is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_compared(sentence: str, passage: str) -> None:
    supported(sentence, [(1, Sentences(passage, sentence[:20]))])


def test_long_text_is_compared_in_linear_time() -> None:
    long = "the vault, if the archive of the copy is signed by the owner; " * 400
    assert supported(long, [(1, Sentences(long))])
