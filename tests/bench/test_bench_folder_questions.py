"""The first questions to a folder: each sentence that answers is in its file once."""

from __future__ import annotations

import re

import pytest
import yaml

from evals.bench.passages.corpora import ROOT
from evals.bench.real_text import DATA


@pytest.mark.skipif(not (DATA / "rust-book").is_dir(), reason="../shared/data is not there")
def test_each_sentence_that_answers_begins_so_once_in_its_file() -> None:
    folder = yaml.safe_load((ROOT / "evals" / "gold" / "folder" / "rust_book.yaml").read_text(encoding="utf-8"))
    answered = [question for question in folder["questions"] if "page" in question]
    assert (len(folder["questions"]), len(answered)) == (20, 14)
    for question in answered:
        source = (DATA / folder["folder"] / question["page"]).read_text(encoding="utf-8")
        assert " ".join(re.sub(r"[_*`>]", "", source).split()).count(question["starts"]) == 1, question
