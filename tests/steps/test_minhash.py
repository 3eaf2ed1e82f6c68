"""Signatures are datasketch's, buckets are those of its LSH, and the bands miss nothing at the threshold."""

from __future__ import annotations

import random

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH

from rag_assets.steps.dedup.minhash import CAUGHT, PERMUTATIONS, bands_of, buckets, estimate, fingerprints, signatures
from rag_assets.steps.dedup.shingles import Shingles, shingles_of, words_of

WORDS = [f"word{number}" for number in range(60)]


def texts(count: int, seed: int = 0) -> list[str]:
    """Texts of which many differ from the one before in a word or two."""
    random.seed(seed)
    made = [random.choices(WORDS, k=80)]
    while len(made) < count:
        words = list(made[-1]) if random.random() < 0.7 else random.choices(WORDS, k=80)
        words[random.randrange(len(words))] = random.choice(WORDS)
        made.append(words)
    return [" ".join(words) for words in made]


def theirs(shingles: Shingles) -> list[MinHash]:
    data = [np.unique(own).astype(np.uint32).tolist() for own in shingles.sets()]
    return list(MinHash.generator(data, num_perm=PERMUTATIONS, hashfunc=int))


def test_signatures_are_to_the_bit_those_of_datasketch() -> None:
    shingles = shingles_of([words_of(text) for text in [*texts(30), "", "one", "one two"]])
    assert (signatures(shingles) == np.array([each.hashvalues for each in theirs(shingles)])).all()


def test_texts_share_a_bucket_where_datasketch_finds_one_from_the_other() -> None:
    shingles = shingles_of([words_of(text) for text in texts(80)])
    found = buckets(signatures(shingles), np.zeros(80, np.uint64), 0.8)
    lsh = MinHashLSH(num_perm=PERMUTATIONS, params=bands_of(0.8))
    for number, sketch in enumerate(theirs(shingles)):
        lsh.insert(number, sketch)
    for number, sketch in enumerate(theirs(shingles)):
        shared = {other for other in range(80) if ((found[number] == found[other]) & (found[number] >= 0)).any()}
        assert shared | {number} == set(lsh.query(sketch))


def test_texts_of_another_key_never_share_a_bucket() -> None:
    own = fingerprints(["the same words"] * 3)["signature"]
    found = buckets(own, np.array([1, 1, 2], np.uint64), 0.92)
    assert (found[0] == found[1]).all()
    assert (found[2] == -1).all()


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.92, 0.99, 1.0])
def test_a_pair_right_at_the_threshold_is_caught(threshold: float) -> None:
    bands, rows = bands_of(threshold)
    assert bands * rows <= PERMUTATIONS
    assert 1 - (1 - threshold**rows) ** bands >= CAUGHT


def test_the_same_words_give_the_same_digest_whatever_their_case_and_marks() -> None:
    one, two, other = fingerprints(["**Stop** the broker.", "stop THE broker", "start the broker"])
    assert one["digest"] == two["digest"] != other["digest"]
    assert estimate(one["signature"], two["signature"]) == 1
    assert one["literals"] == two["literals"] != other["literals"]
