"""Whether what introduces a list has to be shown with its items is decided without the dictionary."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rag_serving.answering.verification.grammar import governs
from rag_serving.answering.verification.words import tokens, tokens_as_written

LEADS = {
    "Do not:": True,
    "If the vault is sealed:": True,
    "Crews have to carry:": True,
    "Crews do not have to carry:": True,
    "Excepting holidays, the desk opens at:": True,
    "Never lift these without a permit:": True,
    "The desk has:": False,
    "The broker has been given these settings:": False,
    "Steps:": False,
    "To restart a broker:": False,
    "Defaults of the consumers in 3.5 GB regions:": False,
}


@pytest.mark.parametrize(("lead", "expected"), LEADS.items())
def test_words_as_written_say_as_much_of_a_lead_as_their_dictionary_forms(lead: str, expected: bool) -> None:
    assert governs(tokens_as_written(lead)) is governs(tokens(lead)) is expected


def test_the_dictionary_is_not_loaded_for_a_lead() -> None:
    code = (
        "import sys; from rag_serving.answering.verification.words import tokens, tokens_as_written\n"
        "tokens_as_written('Brokers are restarted by:'); assert 'simplemma' not in sys.modules\n"
        "tokens('Brokers are restarted by:'); assert 'simplemma' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
