"""Every enumerated page has a place, or is named."""

from __future__ import annotations

from rag_assets.steps.incremental import take_account


def test_every_page_chunked_excluded_failed_or_empty_comes_out_even() -> None:
    account = take_account(["1", "2", "3", "4"], ["1", "4"], ["1"], {"2": "archived"}, {"3": "not XML"})
    assert account.even
    assert account.chunked == 1
    assert account.excluded == {"2": "archived", "4": "no text"}
    assert account.failed == {"3": "not XML"}


def test_a_page_nobody_accounts_for_is_named() -> None:
    account = take_account(["1", "2"], ["1"], ["1"], {}, {})
    assert not account.even
    assert account.unexplained == ("2",)


def test_a_page_that_is_no_longer_enumerated_does_not_count() -> None:
    account = take_account(["1"], ["1", "9"], ["1", "9"], {"8": "archived"}, {})
    assert (account.enumerated, account.chunked, account.excluded) == (1, 1, {})
