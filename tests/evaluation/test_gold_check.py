"""Entries of a gold set that no longer stand in the pages, with what is nearest now."""

from __future__ import annotations

from evals.evaluation.gold import GoldLocation, GoldQuestion, GoldSet, check_gold, live

PAGES = {
    "1": [
        GoldLocation("Retention", "Logs are kept for 14 days, then they are deleted."),
        GoldLocation("Backups", "Backups are “taken” at\n02:00 each night."),
    ]
}


def question(quote: str, anchor: str = "", page: str = "1", answerable: bool = True) -> GoldQuestion:
    return GoldQuestion("q", "How long?", answerable, frozenset({page}), (quote,) if quote else (), anchor)


def stale_of(entry: GoldQuestion) -> list[str]:
    return [each.line() for each in check_gold(GoldSet((entry,)), PAGES)]


def test_an_entry_stands_whatever_its_white_space_and_typography() -> None:
    assert stale_of(question('backups are "taken" at 02:00', "Backups")) == []


def test_a_page_that_is_gone_is_told() -> None:
    assert stale_of(question("anything", page="9")) == ["q: page 9 is gone"]


def test_a_changed_quote_comes_with_the_nearest_new_one() -> None:
    [line] = stale_of(question("Logs are kept for 7 days", "Retention"))
    assert line.startswith("q: the quote “Logs are kept for 7 days” is gone; nearest: “Logs are kept for 14 days")
    assert line.endswith("under #Retention")


def test_a_quote_that_nothing_resembles_has_no_nearest_one() -> None:
    assert stale_of(question("zxqj wvvk")) == ["q: the quote “zxqj wvvk” is gone"]


def test_a_quote_under_another_heading_tells_its_anchor_and_is_still_asked() -> None:
    entry = question("Logs are kept for 14 days", "Backups")
    assert stale_of(entry) == ["q: the quote stands no longer under #Backups; nearest: #Retention"]
    gold = GoldSet((entry,))
    assert live(gold, check_gold(gold, PAGES)) == gold


def test_gone_entries_are_not_asked_and_unanswerable_ones_are() -> None:
    gone, without = question("zxqj wvvk"), GoldQuestion("none", "Who won?", False)
    gold = GoldSet((gone, without), "demo")
    assert live(gold, check_gold(gold, PAGES)) == GoldSet((without,), "demo")
