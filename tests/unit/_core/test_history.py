import pytest

from danaus._core.history import History, InvariantBroken


def test_a_broken_rule_tells_the_machine_the_rule_and_what_came_before():
    history = History("session 'a'", length=2)
    for number in range(3):
        history.record(float(number), "Heard", number)

    with pytest.raises(InvariantBroken) as caught:
        history.require(False, "nothing is lost")

    assert caught.value.machine == "session 'a'"
    assert caught.value.rule == "nothing is lost"
    assert str(caught.value) == (
        "session 'a': broken invariant: nothing is lost. The last events were:\n"
        "1.000000 Heard 1\n2.000000 Heard 2"
    )


def test_a_rule_that_holds_says_nothing():
    History("session 'a'").require(True, "nothing is lost")
