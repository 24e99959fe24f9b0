"""What travels in messages, and what cannot (CASES E1, E3, E4, E5, E9)."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from danaus.actor import ActorError, SerializationError, this_host
from tests.integration.endpoint_actors import Counter
from tests.integration.value_actors import Box, Broken, BrokenAtHome, Keeper, Spawner


def keeper() -> Keeper:
    """A keeper in a process of its own."""
    return this_host().spawn_procs().spawn("keeper", Keeper)


def run_script(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run a program as users do: its classes live in ``__main__``."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=25, check=False
    )


def test_an_actor_of_main_may_refer_to_what_was_imported(tmp_path: Path):
    """E1: native objects and modules at module level of a script."""
    (tmp_path / "library.py").write_text("import threading\nHANDLE = threading.RLock()\n")
    done = run_script(
        tmp_path,
        """
        import json, zlib
        from _json import encode_basestring_ascii as native
        from library import HANDLE
        from operator import itemgetter
        from danaus.actor import Actor, endpoint, this_host

        first = itemgetter(0)

        class User(Actor):
            @endpoint
            def use(self):
                with HANDLE:
                    return native("x"), json.dumps(1), zlib.crc32(b"x"), first((4, 5))

        if __name__ == "__main__":
            print(this_host().spawn_procs().spawn("user", User).use.call_one().get(20))
        """,
    )

    assert done.stdout.strip() == "('\"x\"', '1', 2363233923, 4)", done.stderr


def test_a_class_of_main_keeps_its_state_when_references_come_back(tmp_path: Path):
    """E4: the same class here and there, however often it travels."""
    done = run_script(
        tmp_path,
        """
        from dataclasses import dataclass
        from danaus.actor import Actor, endpoint, this_host

        @dataclass
        class Note:
            text: str

        class Teller(Actor):
            told = 0
            @endpoint
            def tell(self, note):
                type(self).told += 1
                return note, self.told, isinstance(note, Note)

        if __name__ == "__main__":
            Note.seen = "here"
            teller = this_host().spawn_procs().spawn("teller", Teller)
            answers = [teller.tell.call_one(Note("x")).get(20) for _ in range(3)]
            print([a[1:] for a in answers], {type(a[0]) is Note for a in answers}, Note.seen)
        """,
    )

    assert done.stdout.strip() == "[(1, True), (2, True), (3, True)] {True} here", done.stderr


@pytest.mark.parametrize("method", ["take", "take_async"])
def test_an_argument_that_cannot_be_unpickled_costs_one_call(method: str):
    """E3: an argument's __setstate__ raises; the next call works."""
    actor = keeper()

    with pytest.raises(ActorError, match="arguments could not be unpickled") as raised:
        getattr(actor, method).call_one(Broken()).get(10)
    assert isinstance(raised.value, LookupError)
    assert "this state is broken" in str(raised.value)
    assert "__setstate__" in str(raised.value)

    assert getattr(actor, method).call_one(1).get(10) == "int"


def test_a_broadcast_argument_that_cannot_be_unpickled_costs_no_actor():
    """E3: where nobody waits for an answer, the actor lives on all the same."""
    actor = keeper()

    actor.take.broadcast(Broken())

    assert actor.take.call_one(1).get(10) == "int"


def test_a_result_that_cannot_be_unpickled_is_an_error_of_the_caller():
    """E3: the other way round."""
    actor = keeper()

    with pytest.raises(LookupError, match="this result is broken"):
        actor.broken_result.call_one().get(10)
    assert actor.take.call_one(1).get(10) == "int"


def test_references_travel_inside_values_while_what_they_name_is_starting():
    """E4: nested in dataclasses, dicts and lists, pickled before anything has started."""
    counters = this_host().spawn_procs(per_host={"gpus": 2}).spawn("counters", Counter)
    box = Box("b", {"mesh": counters.slice(gpus=0)}, [counters, counters.slice(gpus=1)])
    actor = keeper()

    actor.take.broadcast(box)

    assert actor.ask_kept.call_one().get(20) == [1, 2, 1, 2]
    assert actor.give.call_one().get(10).more[0] == counters


@pytest.mark.timeout(60)
def test_a_reference_returned_by_the_endpoint_that_spawned_it_works_at_once():
    """E4: 200 times."""
    spawner = this_host().spawn_procs().spawn("spawner", Spawner)

    children = [spawner.spawn_here.call_one(i) for i in range(200)]

    assert [child.get(30).give.call_one().get(30) for child in children] == list(range(200))


def test_a_mesh_of_processes_travels_and_can_be_spawned_on():
    """E4: a reference to processes, too."""
    procs = this_host().spawn_procs()
    actor = keeper()
    actor.take.call_one(procs).get(10)

    back = actor.give.call_one().get(10)

    assert back == procs
    assert back.spawn("there", Counter).add.call_one(2).get(10) == 2


def test_actors_that_import_at_once_import_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """E5: eight actors of one process, two modules that import each other, slowly."""
    log = tmp_path / "imports"
    for mine, other in (("slow_one", "slow_two"), ("slow_two", "slow_one")):
        (tmp_path / f"{mine}.py").write_text(
            textwrap.dedent(
                f"""
                import threading
                with open({str(log)!r}, "a") as file:
                    file.write("{mine}\\n")
                threading.Event().wait(0.2)
                import {other}
                threading.Event().wait(0.2)
                class Thing:
                    def __setstate__(self, state):
                        self.other = {other}.Thing
                    def __getstate__(self):
                        return 1
                """
            )
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = [importlib.import_module(name) for name in ("slow_one", "slow_two")]

    log.unlink()
    procs = this_host().spawn_procs()
    actors = [procs.spawn(f"a{i}", Keeper) for i in range(8)]

    calls = [actor.take.call_one(modules[i % 2].Thing()) for i, actor in enumerate(actors)]

    assert [call.get(20) for call in calls] == ["Thing"] * 8
    assert sorted(log.read_text().split()) == ["slow_one", "slow_two"]


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("generator", "cannot send a generator: "),
        ("generator_async", "cannot send a generator: "),
        ("lock_inside", r"cannot send a lock at \['parts'\]\[1\]\.content: "),
        ("open_file", r"cannot send a TextIOWrapper at \[0\]: .*/dev/null"),
    ],
)
def test_a_result_that_cannot_be_sent_is_named_with_its_place(method: str, what: str):
    """E9: the error names what could not be sent, and where in the value it sits."""
    actor = keeper()

    with pytest.raises(SerializationError, match=what) as raised:
        getattr(actor, method).call_one().get(10)

    assert isinstance(raised.value, ActorError)
    assert f"Actor call keeper.{method} failed: its result could not be sent." in str(raised.value)
    assert actor.take.call_one(1).get(10) == "int"


def test_an_argument_that_cannot_be_sent_is_refused_at_once():
    """E9: before anything is sent, and the next call is in order."""
    actor = keeper()

    with pytest.raises(SerializationError, match=r"a generator at content of argument 1"):
        actor.take.call_one(Box("b", (i for i in ())))
    with pytest.raises(SerializationError, match=r"a generator as argument 'value'"):
        actor.take.broadcast(value=(i for i in ()))

    assert actor.take.call_one(BrokenAtHome).get(10) == "type"


def test_constructor_arguments_that_cannot_be_sent_are_refused_by_spawn():
    """E9: the error names the actor, too."""
    procs = this_host().spawn_procs()

    with pytest.raises(SerializationError, match=r"cannot spawn actor 'k' of Keeper: .*generator"):
        procs.spawn("k", Keeper, (i for i in ()))
