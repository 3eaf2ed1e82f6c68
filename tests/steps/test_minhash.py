"""Signatures are those of datasketch, and its index misses nothing at the threshold."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rag_assets.steps.dedup import (
    CAUGHT,
    PERMUTATIONS,
    bands_of,
    fingerprints,
    jaccard,
    open_index,
    shingles_of,
    signatures,
    sketches_of,
    words_of,
)

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


def test_a_signature_is_the_smallest_value_of_each_permutation() -> None:
    from datasketch import MinHash

    shingles = shingles_of([words_of(text) for text in [*texts(30), "one", "one two"]])
    expected = []
    for own in shingles.sets():
        sketch = MinHash(num_perm=PERMUTATIONS, hashfunc=int, scheme="affine32")
        for value in own.astype(np.uint32).tolist():
            sketch.update(value)
        expected.append(sketch.hashvalues)
    assert (signatures(shingles) == np.array(expected)).all()


def test_no_texts_have_no_signatures() -> None:
    assert signatures(shingles_of([])).shape == (0, PERMUTATIONS)


def test_an_index_finds_what_is_similar_and_hardly_anything_else() -> None:
    shingles = shingles_of([words_of(text) for text in texts(200)])
    sketches, sets = sketches_of(signatures(shingles)), list(shingles.sets())
    index = open_index(0.8)
    for number, sketch in enumerate(sketches):
        index.insert(number, sketch)
    near = {(one, two) for one in range(200) for two in range(200) if jaccard(sets[one], sets[two]) >= 0.8}
    found = {(one, two) for one in range(200) for two in index.query(sketches[one])}
    assert near <= found
    assert len(found) < 200 * 200 / 4


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.92, 0.99, 1.0])
def test_a_pair_right_at_the_threshold_is_caught(threshold: float) -> None:
    bands, rows = bands_of(threshold)
    assert bands * rows <= PERMUTATIONS
    assert 1 - (1 - threshold**rows) ** bands >= CAUGHT


def test_the_same_words_give_the_same_digest_whatever_their_case_and_marks() -> None:
    one, two, other = fingerprints(["**Stop** the broker.", "stop THE broker", "start the broker"])
    assert one["digest"] == two["digest"] != other["digest"]
    assert (one["signature"] == two["signature"]).all()
    assert one["literals"] == two["literals"] != other["literals"]
