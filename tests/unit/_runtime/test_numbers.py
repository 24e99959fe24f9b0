from collections import defaultdict
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from danaus._runtime.numbers import MessageNumbers

PROCS = [f"p{i}" for i in range(6)]


class Group:
    """Receivers of a cast: each process has the rank of its place."""

    def __init__(self, procs: list[str]) -> None:
        self.ranks: Mapping[str, int] = {proc: rank for rank, proc in enumerate(procs)}


# A cast to a group by its number, or a message to one process.
GROUPS = [Group(PROCS), Group(PROCS[:3]), Group(PROCS[2:]), Group(PROCS[::-1])]
steps = st.lists(st.integers(0, len(GROUPS) - 1) | st.sampled_from(PROCS), max_size=40)


@given(steps)
def test_each_receiver_sees_the_numbers_from_zero_whatever_was_cast_and_whatever_sent(
    sent: list[int | str],
):
    numbers = MessageNumbers()
    seen: defaultdict[str, list[int]] = defaultdict(list)

    for step in sent:
        if isinstance(step, str):
            seen[step].append(numbers.next("root", "mesh", step))
        else:
            group = GROUPS[step]
            given_out = numbers.next_of("root", "mesh", group)
            for proc, rank in group.ranks.items():
                seen[proc].append(given_out.of(rank))

    for received in seen.values():
        assert received == list(range(len(received)))


def test_a_cast_to_all_carries_one_number_however_many_there_are():
    numbers = MessageNumbers()
    group = Group([f"p{i}" for i in range(10_000)])
    for proc in group.ranks:
        numbers.next("root", "mesh", proc)  # as each was spawned

    first = numbers.next_of("root", "mesh", group)
    numbers.next("root", "mesh", "p17")
    second = numbers.next_of("root", "mesh", group)

    assert (first.usual, first.runs) == (1, [])
    assert (second.usual, second.runs) == (2, [(17, 1, 3)])


def test_a_process_that_takes_the_place_of_another_begins_at_zero():
    numbers = MessageNumbers()
    for _ in range(3):
        numbers.next_of("root", "mesh", Group(["a", "b"]))

    respawned = numbers.next_of("root", "mesh", Group(["a", "c"]))

    assert [respawned.of(0), respawned.of(1)] == [3, 0]


def test_what_is_forgotten_begins_at_zero_again():
    numbers = MessageNumbers()
    for actor in ("one", "other"):
        numbers.next("root", actor, "a")

    numbers.forget_mesh("one")

    assert numbers.next("root", "one", "a") == 0
    assert numbers.next("root", "other", "a") == 1
    numbers.forget_proc("a")
    assert numbers.next("root", "other", "a") == 0
