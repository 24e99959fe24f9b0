import re

from danaus._runtime.identity import fresh_name, unique


def test_names_are_unique_and_fit_for_files_and_addresses():
    names = {unique() for _ in range(1000)}

    assert len(names) == 1000
    assert all(re.fullmatch("[0-9a-z]{12}", name) for name in names)


def test_a_name_has_the_length_that_was_asked_for():
    assert [len(unique(length)) for length in (1, 4, 30)] == [1, 4, 30]


def test_a_fresh_name_begins_with_what_people_know():
    first, second = fresh_name("trainer"), fresh_name("trainer")

    assert first.startswith("trainer-")
    assert first != second
