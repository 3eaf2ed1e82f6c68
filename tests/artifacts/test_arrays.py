"""Arrays are read from the bytes of an `.npy` file as NumPy reads them, in any number of threads at once."""

from __future__ import annotations

import ast
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rag_serving.artifacts.contents import array_of

PLAIN = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.floating_dtypes(sizes=(16, 32, 64)),
    arrays.byte_string_dtypes(max_len=5),
    arrays.unicode_string_dtypes(max_len=5),
)
RECORD = np.dtype([("key", "<u8"), ("scale", "<f4"), ("code", "i1", (3,)), ("grid", "<i2", (2, 2))])


def saved(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@given(
    PLAIN.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0))),
    st.booleans(),
)
def test_an_array_is_read_as_numpy_reads_it(array: np.ndarray[Any, Any], by_column: bool) -> None:
    data = saved(np.asfortranarray(array) if by_column else array)
    read, expected = array_of(memoryview(data)), np.load(io.BytesIO(data))
    assert (read.dtype, read.shape) == (expected.dtype, expected.shape)
    assert read.tobytes() == expected.tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_records_are_read_in_both_versions_of_the_format(version: tuple[int, int]) -> None:
    file = io.BytesIO()
    records = np.zeros(4, RECORD)
    records["code"] = np.arange(12).reshape(4, 3)
    np.lib.format.write_array(file, records, version)
    read = array_of(memoryview(file.getvalue()))
    assert read.dtype == RECORD
    assert np.array_equal(read, records)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_header_is_an_error_of_values_or_still_numpys_array(position: int, byte: int) -> None:
    data = bytearray(saved(np.arange(12, dtype="<i4").reshape(3, 4)))
    data[position % len(data)] = byte
    try:
        read = array_of(memoryview(bytes(data)))
    except ValueError:
        return
    expected = np.load(io.BytesIO(bytes(data)))
    assert (read.dtype, read.shape, read.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.mark.parametrize("length", [0, 5, 6, 8, 9, 10, 60, 127])
def test_a_file_that_ends_in_its_header_is_an_error_of_values(length: int) -> None:
    with pytest.raises(ValueError, match=r"npy"):
        array_of(memoryview(saved(np.arange(3))[:length]))


def test_a_header_of_gigabytes_is_refused_unread() -> None:
    with pytest.raises(ValueError, match="at most 10240"):
        array_of(memoryview(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'"))


def test_arrays_are_read_without_pythons_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "literal_eval", None)  # numpy's own reader calls it
    with ThreadPoolExecutor(4) as threads:
        data = saved(np.arange(6.0))
        assert all(array.sum() == 15 for array in threads.map(array_of, [memoryview(data)] * 40))
