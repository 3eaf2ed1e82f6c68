"""What limits a sentence is never left out of it: who, when, where, which of two, and what else it takes."""

from __future__ import annotations

import pytest
from support.passages import lock_of

from rag_serving.answering.verification import verify
from rag_serving.records.claims import Claim, Draft

# A passage, a true quote of it, and sentences that it does not say.
CASES = [
    (
        "Smoking is allowed in the yard. Visitors sign the book at reception.",
        "Smoking is allowed in the yard",
        [
            "Smoking is allowed.",
            "Smoking is allowed at reception.",
            "Visitors sign the book.",
            "Visitors smoke in the yard.",
        ],
    ),
    (
        "Refunds are paid for annual plans within 14 days, but not for monthly plans.",
        "Refunds are paid for annual plans within 14 days",
        [
            "Refunds are paid within 14 days.",
            "Refunds are paid for monthly plans within 14 days.",
            "Refunds are paid for annual plans.",
            "Refunds are paid for annual plans within 14 days and monthly plans.",
        ],
    ),
    (
        "Admins create users and managers delete teams.",
        "Admins create users and managers delete teams",
        [
            "Admins delete teams.",
            "Managers create users.",
            "Admins create users and delete teams.",
            "Admins and managers delete teams.",
        ],
    ),
    (
        "You may enter with a badge and a visitor's pass.",
        "enter with a badge and a visitor's pass",
        ["You may enter with a badge.", "You may enter with a visitor's pass.", "You may enter."],
    ),
    (
        "The old API, which was removed in 7.0, accepted XML. The new API accepts JSON only.",
        "accepted XML. The new API accepts JSON only",
        [
            "The new API accepts XML.",
            "The API accepts XML.",
            "The old API accepts JSON only.",
            "The old API accepted JSON only.",
            "The API was removed in 7.0.",
            "The new API was removed in 7.0.",
        ],
    ),
    (
        "Unless the disk is full, the node writes a snapshot every 10 minutes.",
        "the node writes a snapshot every 10 minutes",
        [
            "The node writes a snapshot every 10 minutes.",
            "If the disk is full, the node writes a snapshot every 10 minutes.",
            "The disk is full.",
            "The node writes a snapshot.",
        ],
    ),
    (
        "We do not delete accounts when users leave; we disable them.",
        "delete accounts when users leave; we disable them",
        [
            "We delete accounts when users leave.",
            "We disable them.",
            "Users disable accounts when they leave.",
            "We do not disable accounts when users leave.",
        ],
    ),
    (
        "Contact support before you rotate the key. Otherwise sessions are lost.",
        "Contact support before you rotate the key",
        [
            "Rotate the key before you contact support.",
            "Rotate the key.",
            "Sessions are lost.",
            "Contact support after you rotate the key.",
            "Sessions are lost before you rotate the key.",
        ],
    ),
    (
        "Some customers in the EU pay VAT. Most customers in Japan pay consumption tax.",
        "Some customers in the EU pay VAT",
        [
            "Customers in the EU pay VAT.",
            "Customers pay VAT.",
            "Some customers pay VAT.",
            "Customers in Japan pay VAT.",
            "Most customers in the EU pay VAT.",
            "Some customers in Japan pay VAT.",
        ],
    ),
    (
        "It is planned to move the archive to Lyon in 2027.",
        "move the archive to Lyon in 2027",
        [
            "The archive moves to Lyon in 2027.",
            "The archive is in Lyon.",
            "Move the archive to Lyon in 2027.",
            "The archive is moved to Lyon in 2027.",
        ],
    ),
    (
        "In an interview, Ben claimed that the vault is safe.",
        "Ben claimed that the vault is safe",
        ["The vault is safe.", "Ben is safe.", "The vault claimed that Ben is safe.", "Ben claimed the vault."],
    ),
    (
        "For example, a team of five may order two monitors.",
        "a team of five may order two monitors",
        [
            "A team may order two monitors.",
            "A team of five may order monitors.",
            "A team of two may order five monitors.",
            "Two monitors may order a team of five.",
        ],
    ),
    (
        "| Plan | Price | Seats |\n|---|---|---|\n| Basic | 10 EUR | 3 |\n| Pro | 30 EUR | 20 |\n",
        "Basic | 10 EUR | 3",
        [
            "The price of Basic is 30 EUR.",
            "The price of Pro is 10 EUR.",
            "Basic has 20 seats.",
            "The price of Basic is 3 EUR.",
            "The price is 10 EUR.",
            "Pro is Basic.",
        ],
    ),
    (
        "- Do not share the root password\n- Rotate the key every 90 days\n",
        "Do not share the root password",
        [
            "Share the root password.",
            "Rotate the root password every 90 days.",
            "Rotate the key.",
            "Do not rotate the key every 90 days.",
            "Do not share the key.",
        ],
    ),
    (
        "Nobody but the auditor may open the safe.",
        "Nobody but the auditor may open the safe",
        [
            "Nobody may open the safe.",
            "The auditor may not open the safe.",
            "Nobody but the safe may open the auditor.",
            "The auditor may open the safe at any time.",
        ],
    ),
    (
        "Backups are kept for 33 days, then they are moved to tape.",
        "kept for 33 days, then they are moved to tape",
        [
            "Backups are moved to tape, then they are kept for 33 days.",
            "Tape backups are kept for 33 days.",
            "Backups are kept on tape for 33 days.",
            "They are moved to tape for 33 days.",
        ],
    ),
    (
        "If the primary fails, the standby takes over. The primary never takes over.",
        "the standby takes over. The primary never takes over",
        [
            "The primary takes over.",
            "The standby never takes over.",
            "If the standby fails, the primary takes over.",
            "The standby fails.",
            "The standby takes over.",
        ],
    ),
    (
        "Employees who work at night get a bonus of 200 EUR.",
        "get a bonus of 200 EUR",
        [
            "Employees get a bonus of 200 EUR.",
            "Employees who get a bonus work at night.",
            "Employees work at night.",
            "Who works at night gets 200 EUR.",
        ],
    ),
    (
        "The fee may be waived by the director in hardship cases.",
        "may be waived by the director in hardship cases",
        [
            "The fee is waived by the director in hardship cases.",
            "The director waives the fee.",
            "The fee may be waived.",
            "You may waive the fee in hardship cases.",
            "The director may be waived by the fee in hardship cases.",
            "The director may waive the fee.",
        ],
    ),
    (
        "Server A replicates to server B, and server B replicates to server C.",
        "Server A replicates to server B",
        ["Server B replicates to server A.", "Server A replicates to server C.", "Server C replicates to server B."],
    ),
    (
        "Version 3 is faster than version 2 on large files.",
        "Version 3 is faster than version 2",
        [
            "Version 2 is faster than version 3 on large files.",
            "Version 3 is faster than version 2.",
            "Version 3 is faster.",
            "Version 3 is fast on large files.",
        ],
    ),
    (
        "Users cannot be deleted, only archived.",
        "cannot be deleted, only archived",
        [
            "Users can be deleted.",
            "Users cannot be archived, only deleted.",
            "Users are deleted.",
            "You can delete users.",
            "Users can only be deleted.",
        ],
    ),
    (
        "Please log out of the portal when you leave the building.",
        "log out of the portal when you leave the building",
        ["Leave the building when you log out of the portal.", "Log out of the portal.", "Leave the building."],
    ),
    (
        "The alarm was tested in May. It will be replaced in June.",
        "was tested in May. It will be replaced in June",
        [
            "The alarm was replaced in June.",
            "The alarm is tested in May.",
            "The alarm will be tested in June.",
            "It was tested in June.",
            "The alarm is replaced in June.",
        ],
    ),
]


@pytest.mark.parametrize(("passage", "quote", "sentences"), CASES)
def test_what_is_left_of_a_sentence_is_not_told_for_the_whole(passage: str, quote: str, sentences: list[str]) -> None:
    for sentence in sentences:
        for question in ("", f"{sentence.rstrip('.')}?", "What is said?"):
            (verdict,) = verify(Draft((Claim(sentence, 1, quote),), "test"), lock_of([passage]), question=question)
            assert verdict.support != "verbatim", sentence
