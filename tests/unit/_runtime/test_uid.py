import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._runtime.uid import ProcId, Uid

LABELS = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,10}", fullmatch=True)


@given(LABELS)
def test_a_name_comes_back_from_its_text(label: str):
    for uid in (Uid.instance(label), Uid.singleton(label), Uid.anonymous()):
        assert Uid.from_string(str(uid)) == uid


def test_instances_differ_and_singletons_do_not():
    assert Uid.instance("a") != Uid.instance("a")
    assert Uid.anonymous() != Uid.anonymous()
    assert Uid.singleton("a") == Uid.from_string("a")


def test_kinds_are_told_apart():
    assert [
        (uid.is_instance, uid.is_singleton, uid.label)
        for uid in (Uid.instance("a"), Uid.singleton("a"), Uid.anonymous())
    ] == [(True, False, "a"), (False, True, "a"), (True, False, None)]


@pytest.mark.parametrize("text", ["", "1a", "a b", "ä"])
def test_other_texts_are_refused(text: str):
    with pytest.raises(ValueError, match="a label begins with a letter"):
        Uid.from_string(text)


@pytest.mark.parametrize("text", ["a<b>", "a-<b", "<>", "a-<b c>"])
def test_a_text_with_a_broken_value_is_refused(text: str):
    with pytest.raises(ValueError, match="is not the text of a Uid"):
        Uid.from_string(text)


def test_names_are_values():
    uid = Uid.instance("a")
    process = ProcId(uid)

    assert pickle.loads(pickle.dumps((uid, process))) == (uid, process)
    assert {uid: 1, process: 2} == {Uid.from_string(str(uid)): 1, ProcId(process.uid): 2}
    assert repr(ProcId(Uid("a"))) == "ProcId(Uid('a'))"


def test_a_name_is_not_empty():
    with pytest.raises(ValueError, match="needs a label, a value, or both"):
        Uid(None)


def test_the_name_of_a_process_is_that_of_its_uid():
    assert str(ProcId(Uid.singleton("service"))) == "service"
