import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus.errors import (
    TEXT_LIMIT,
    ActorError,
    ConnectionRefused,
    CycleError,
    MeshFailure,
    MissingExtra,
    SerializationError,
    SupervisionError,
    actor_error,
    shorten,
)
from tests.unit.odd_errors import CATCHABLE, MADE, boom

MESSAGE = "Actor call trainer.step failed."


@pytest.mark.parametrize("kind", MADE)
def test_an_actor_error_is_what_the_endpoint_raised_wherever_that_can_be(kind: str):
    original = boom(kind)

    error = actor_error(original, MESSAGE)

    assert isinstance(error, ActorError)
    assert isinstance(error, type(original)) == (kind in CATCHABLE)
    assert error.exception is original
    assert error.message == MESSAGE


@pytest.mark.parametrize("kind", MADE)
def test_the_text_of_an_actor_error_names_call_and_type_and_shows_the_traceback(kind: str):
    original = boom(kind)

    text = str(actor_error(original, MESSAGE))

    assert text.startswith(f"{MESSAGE}\nTraceback of where the remote call failed")
    assert type(original).__name__ in text
    assert "in boom" in text
    assert len(text) <= 4 * TEXT_LIMIT


@pytest.mark.parametrize("kind", MADE)
def test_an_actor_error_can_be_shown_and_raised_and_caught(kind: str):
    error = actor_error(boom(kind), MESSAGE, "a traceback")

    repr(error)
    with pytest.raises(ActorError) as caught:
        raise error
    assert caught.value is error


def test_an_actor_error_has_the_fields_of_the_original():
    file = actor_error(FileNotFoundError(2, "No such file", "path"), MESSAGE)
    decoding: Any = actor_error(boom("a decoding error"), MESSAGE)
    slotted: Any = actor_error(boom("slots"), MESSAGE)
    keyword: Any = actor_error(boom("keyword only"), MESSAGE)

    assert isinstance(file, FileNotFoundError)
    assert (file.errno, file.strerror, file.filename) == (2, "No such file", "path")
    assert (decoding.start, decoding.reason) == (0, "invalid start byte")
    assert (slotted.code, keyword.code) == (5, 5)


def test_an_actor_error_has_the_arguments_of_the_original():
    assert actor_error(KeyError("missing"), MESSAGE).args == ("missing",)
    assert actor_error(ValueError("one", "two"), MESSAGE).args == ("one", "two")


def test_names_of_the_original_do_not_hide_ours():
    error = actor_error(boom("our names"), MESSAGE, "remote traceback")

    assert error.message == MESSAGE
    assert error.traceback_text == "remote traceback"
    assert isinstance(error.exception, Exception)


def test_a_group_can_be_handled_by_its_parts():
    handled: list[BaseException] = []
    try:
        raise actor_error(boom("a group"), MESSAGE)
    except* ValueError as group:
        handled += group.exceptions
    except* KeyError as group:
        handled += group.exceptions

    assert [str(error) for error in handled] == ["one", "'two'"]


@pytest.mark.parametrize("kind", sorted(CATCHABLE - {"of a function"}))
def test_an_actor_error_survives_pickling_where_its_original_does(kind: str):
    original = boom(kind)
    try:
        again = pickle.loads(pickle.dumps(original))
    except Exception:  # noqa: BLE001  # then there is nothing to compare with
        again = None
    if type(again) is not type(original):
        return
    error = actor_error(original, MESSAGE, "remote traceback")

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert (copy.message, copy.traceback_text) == (MESSAGE, "remote traceback")
    assert str(copy) == str(error)


def test_the_error_of_a_call_that_the_endpoint_made_stays_what_it_was():
    inner = actor_error(OverflowError("too large"), "Actor call inner.f failed.", "inner trace")

    outer = actor_error(inner, "Actor call outer.g failed.", "outer trace")

    assert isinstance(outer, OverflowError)
    assert outer.exception is inner
    assert str(outer).startswith("Actor call outer.g failed.\n")


def test_two_errors_of_one_type_are_of_one_class():
    first, second = actor_error(ValueError("a"), MESSAGE), actor_error(ValueError("b"), MESSAGE)

    assert type(first) is type(second)


def test_an_actor_error_of_a_text_has_an_exception_too():
    error = ActorError("it failed")

    assert isinstance(error.exception, RuntimeError)
    assert str(error.exception) == "it failed"
    assert error.message == "A remote actor call has failed."


def test_a_traceback_that_was_never_raised_still_names_the_error():
    assert "ValueError: wrong" in str(ActorError(ValueError("wrong")))


@given(st.text(), st.integers(60, 500))
def test_a_text_is_never_longer_than_its_limit(text: str, limit: int):
    short = shorten(text, limit)

    assert len(short) <= limit
    assert (short == text) == (len(text) <= limit)


def test_a_text_that_is_too_long_keeps_both_ends_and_says_what_is_missing():
    short = shorten("a" * 100 + "b" * 5000 + "c" * 100, 300)

    assert short.startswith("a" * 100)
    assert short.endswith("c" * 100)
    assert "characters left out" in short


LONG = "x" * 10_000


def long_failure(origin: MeshFailure | None = None) -> MeshFailure:
    return MeshFailure(
        "trainer",
        list(range(1000)),
        LONG,
        actor_class="Trainer",
        host="node7",
        pid=4711,
        exit="SIGKILL",
        title=LONG,
        origin=origin,
        stderr=f"{LONG}\n" * 20,
    )


@pytest.mark.parametrize(
    "error",
    [
        ActorError(ValueError(LONG), LONG, LONG),
        actor_error(ValueError(LONG), MESSAGE, LONG),
        long_failure(),
        long_failure(origin=long_failure()),
        SupervisionError.for_call("trainer.step", long_failure()),
        SupervisionError.for_call("trainer.step", long_failure(), known=True),
    ],
)
def test_no_error_text_is_long(error: BaseException):
    limit = 4 * TEXT_LIMIT if isinstance(error, ActorError) else TEXT_LIMIT

    assert 100 < len(str(error)) <= limit


def failure(**fields: Any) -> MeshFailure:
    return MeshFailure("trainer", [3], "it was killed", **fields)


def test_the_report_of_a_death_says_what_where_why_and_the_last_words():
    report = failure(
        actor_class="Trainer", host="node7", pid=4711, exit="SIGKILL", stderr="last words"
    ).report()

    for part in ("Trainer trainer", "rank 3", "node7", "pid 4711", "it was killed", "last words"):
        assert part in report


def test_the_report_of_a_death_leaves_out_what_is_not_known():
    report = failure().report()

    for part in ("pid", "stderr", " on "):
        assert part not in report


def test_the_first_failure_comes_first():
    first = MeshFailure("worker", [0], "it ran out of memory")
    last = failure(origin=failure(origin=first))

    report = last.report()

    assert last.first is first
    assert report.index("ran out of memory") < report.index("it was killed")
    assert report.count("ran out of memory") == 1


def test_a_failure_comes_back_from_its_fields_and_from_its_pickle():
    whole = failure(
        actor_class="Trainer",
        host="node7",
        pid=4711,
        exit="exit code 3",
        title="<root>.trainer",
        origin=MeshFailure("worker", [0], "it ran out of memory", stderr="last words"),
        stderr="bye",
    )

    for copy in MeshFailure.from_dict(whole.to_dict()), pickle.loads(pickle.dumps(whole)):
        assert copy.to_dict() == whole.to_dict()
        assert copy.report() == whole.report()
        assert copy.first.reason == "it ran out of memory"


def test_a_failure_does_not_share_the_callers_list_of_ranks():
    ranks = [1]
    made = MeshFailure("trainer", ranks, "it was killed")

    ranks.append(2)

    assert made.ranks == made.crashed_ranks == [1]


@pytest.mark.parametrize("known", [False, True])
def test_the_error_of_a_call_names_the_call_and_holds_the_failure(known: bool):
    death = failure(actor_class="Trainer")

    error = SupervisionError.for_call("trainer.step", death, known=known)
    copy = pickle.loads(pickle.dumps(error))

    for each in error, copy:
        assert str(each).startswith("Endpoint call trainer.step() failed, ")
        assert "it was killed" in str(each)
        assert each.endpoint == "trainer.step"
        assert each.failure is not None
        assert each.failure.to_dict() == death.to_dict()
    assert isinstance(error, RuntimeError)


def test_the_error_of_a_call_to_what_was_stopped_says_so():
    error = SupervisionError.for_stopped("trainer.step", "trainer", "stopped by client")

    assert error.failure is None
    assert "stopped by client" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_missing_extra_says_how_to_install_it():
    error = MissingExtra("rdma", "nixl")

    assert str(error) == "nixl is not installed. Install it with: pip install 'danaus[rdma]'"
    assert pickle.loads(pickle.dumps(error)).extra == "rdma"


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (SerializationError("x"), TypeError),
        (CycleError("x"), RuntimeError),
        (ConnectionRefused("x"), ConnectionError),
        (MissingExtra("x", "y"), ImportError),
        (SupervisionError("x"), RuntimeError),
    ],
)
def test_errors_are_also_what_python_has_for_them(error: Exception, base: type[Exception]):
    assert isinstance(error, base)
