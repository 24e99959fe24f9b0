"""Recent keeps the newest entries and forgets the rest."""

from danaus._core.recent import Recent


def test_recent_forgets_the_oldest_beyond_its_limit() -> None:
    recent: Recent[int, int] = Recent(3)

    for i in range(10):
        recent[i] = i

    assert list(recent.items()) == [(7, 7), (8, 8), (9, 9)]


def test_recent_keeps_an_entry_that_is_set_again() -> None:
    recent: Recent[str, int] = Recent(2)

    recent["a"] = 1
    recent["b"] = 2
    recent["a"] = 3

    assert dict(recent) == {"a": 3, "b": 2}
