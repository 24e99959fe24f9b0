from collections.abc import Callable
from random import Random

import pytest

from danaus.testing.network import (
    Arrived,
    Faults,
    LinkReset,
    PeerLost,
    SimEvent,
    SimNetwork,
    Woken,
)


class Recorder:
    """A node that writes down its events."""

    def __init__(self, network: SimNetwork, name: str) -> None:
        self.events: list[SimEvent] = []
        self.times: list[float] = []
        network.add(name, self.handle)

    def handle(self, event: SimEvent, now: float) -> None:
        self.events.append(event)
        self.times.append(now)

    def messages(self) -> list[object]:
        return [event.message for event in self.events if isinstance(event, Arrived)]


def pair(faults: Faults | None = None, seed: int = 1) -> tuple[SimNetwork, Recorder, Recorder]:
    network = SimNetwork(seed, faults)
    return network, Recorder(network, "a"), Recorder(network, "b")


def test_a_datagram_arrives_after_a_delay():
    network, _, b = pair(Faults(min_delay=1.0, max_delay=2.0))

    network.send("a", "b", "hello")
    network.run()

    assert b.events == [Arrived("a", "hello")]
    assert 1.0 <= b.times[0] <= 2.0


def test_datagrams_overtake_each_other():
    network, _, b = pair()

    for number in range(20):
        network.send("a", "b", number)
    network.run()

    assert b.messages() != list(range(20))
    assert set(b.messages()) == set(range(20))


def test_datagrams_are_dropped_and_repeated():
    network, _, b = pair(Faults(drop=0.5, duplicate=0.5))

    for number in range(100):
        network.send("a", "b", number)
    network.run()

    received = b.messages()
    assert 30 < len(set(received)) < 70
    assert len(received) > len(set(received))


def test_some_messages_straggle():
    network, _, b = pair(Faults(min_delay=1.0, max_delay=1.0, straggle=0.5))

    for _ in range(20):
        network.send("a", "b", "hello")
    network.run()

    assert set(b.times) == {1.0, 10.0}


def test_a_stream_keeps_the_order_and_loses_nothing():
    network, _, b = pair(Faults(drop=0.9, duplicate=0.9, straggle=0.5))

    for number in range(50):
        network.send_in_order("a", "b", number)
    network.run()

    assert b.messages() == list(range(50))


def test_a_datagram_to_the_dead_is_dropped():
    network, _, b = pair()
    network.kill("b")

    network.send("a", "b", "hello")
    network.run()

    assert b.events == []


def test_the_peer_of_the_dead_is_told_after_what_still_arrives():
    network, a, _ = pair()
    for number in range(10):
        network.send_in_order("b", "a", number)
    network.send_in_order("a", "b", "hello")

    network.kill("b")
    network.kill("b")
    network.run()

    assert a.events[-1] == PeerLost("b")
    assert a.events.count(PeerLost("b")) == 1
    assert a.messages() == list(range(len(a.messages())))


def test_some_of_the_last_words_of_the_dead_are_lost():
    arrived: set[int] = set()
    for seed in range(30):
        network, a, _ = pair(seed=seed)
        for number in range(5):
            network.send_in_order("b", "a", number)
        network.kill("b")
        network.run()
        arrived.add(len(a.messages()))

    assert arrived == {0, 1, 2, 3, 4, 5}


def test_a_stream_to_the_dead_tells_its_sender():
    network, a, _ = pair()
    network.kill("b")

    network.send_in_order("a", "b", "hello")
    network.run()

    assert a.events == [PeerLost("b")]


def test_the_dead_are_told_nothing():
    network, a, _ = pair()
    network.send_in_order("a", "b", "hello")
    network.kill("a")
    network.kill("b")

    network.run()

    assert a.events == []


def test_timers_fire_in_order_of_time():
    network, a, _ = pair()

    network.wake("a", 2.0, "second")
    network.wake("a", 1.0, "first")
    network.run()

    assert a.events == [Woken("first"), Woken("second")]
    assert a.times == [1.0, 2.0]


def test_timers_and_streams_do_not_reach_the_next_incarnation():
    network, _, b = pair()
    network.wake("b", 1.0)
    network.send_in_order("a", "b", "hello")
    network.kill("b")

    again = Recorder(network, "b")
    network.run()

    assert b.events == []
    assert again.events == []
    assert network.alive("b")


def test_a_living_node_cannot_be_started_again():
    network, _, _ = pair()

    with pytest.raises(ValueError, match="node 'a' is alive; kill it before"):
        Recorder(network, "a")


def test_a_partition_drops_datagrams_and_holds_streams_back():
    network, _, b = pair()
    network.partition(["a"])

    network.send("a", "b", "datagram")
    network.send_in_order("a", "b", "stream")
    network.run()
    during = list(b.events)
    network.heal()
    network.run()

    assert during == []
    assert b.messages() == ["stream"]


def test_nodes_of_one_side_of_a_partition_reach_each_other():
    network, _, b = pair()
    Recorder(network, "c")
    network.partition(["c"])

    network.send("a", "b", "hello")
    network.run()

    assert b.messages() == ["hello"]
    assert not network.connected("a", "c")


def test_another_partition_releases_what_it_does_not_hold_back():
    network, _, b = pair()
    network.send_in_order("b", "a", "before")
    network.partition(["a"])
    network.send_in_order("a", "b", "first")

    network.partition(["c"])
    network.send_in_order("a", "b", "second")
    network.run()

    assert b.messages() == ["first", "second"]


def test_a_reset_link_loses_its_tail_and_goes_on():
    network, a, b = pair(seed=3)
    for number in range(10):
        network.send_in_order("a", "b", number)

    network.reset_link("a", "b")
    network.send_in_order("a", "b", "after")
    network.run()

    before = b.events.index(LinkReset("a"))
    assert a.events == [LinkReset("b")]
    assert before < 10
    assert b.events[before + 1 :] == [Arrived("a", "after")]


def test_a_second_reset_does_not_lose_the_news_of_the_first():
    for seed in range(20):
        network, _, b = pair(seed=seed)
        network.reset_link("a", "b")
        network.send_in_order("a", "b", "between")
        network.reset_link("a", "b")
        network.run()

        assert b.events.count(LinkReset("a")) == 2


def test_severed_nodes_take_each_other_for_dead():
    network, a, b = pair()
    c = Recorder(network, "c")
    network.sever("a", "b")

    network.send("a", "b", "datagram")
    network.send_in_order("b", "a", "stream")
    network.send("a", "c", "hello")
    network.run()

    assert a.events == [PeerLost("b")]
    assert b.events == [PeerLost("a"), PeerLost("a")]
    assert c.messages() == ["hello"]


def test_a_script_runs_at_its_time():
    network, _, b = pair(Faults(min_delay=0.0, max_delay=0.0))

    network.at(5.0, lambda: network.send("a", "b", "hello"))
    network.run()

    assert b.times == [5.0]


def test_a_run_can_stop_in_between():
    network, a, _ = pair()
    network.wake("a", 1.0)
    network.wake("a", 3.0)

    network.run(until=2.0)

    assert a.times == [1.0]
    assert network.now == 2.0
    assert network.step()
    assert not network.step()


def test_a_run_that_never_becomes_quiet_is_ended():
    network = SimNetwork(seed=1)
    network.add("a", lambda event, now: network.wake("a", now + 1.0))
    network.wake("a", 0.0)

    with pytest.raises(TimeoutError, match="not quiet after 100 steps") as caught:
        network.run(max_steps=100)

    assert "--sim-seed=1" in caught.value.__notes__[0]


def story_of(seed: int) -> str:
    network, _, _ = pair(Faults(drop=0.3, duplicate=0.3, straggle=0.3), seed=seed)
    for number in range(30):
        network.send("a", "b", number)
        network.send_in_order("b", "a", number)
    network.at(0.005, lambda: network.kill("b"))
    network.run()
    return network.story()


def test_the_same_seed_gives_the_same_run():
    assert story_of(5) == story_of(5)
    assert story_of(5).splitlines()[1:] != story_of(6).splitlines()[1:]


def breaks_in_handler(network: SimNetwork) -> None:
    def handle(event: SimEvent, now: float) -> None:
        raise RuntimeError("broken")

    network.add("a", handle)


def breaks_in_check(network: SimNetwork) -> None:
    def check() -> None:
        raise RuntimeError("broken")

    network.add("a", lambda event, now: None, check=check)


@pytest.mark.parametrize("breaks", [breaks_in_handler, breaks_in_check])
def test_a_failure_carries_the_seed_and_the_story_once(breaks: Callable[[SimNetwork], None]):
    network = SimNetwork(seed=42)
    breaks(network)
    network.wake("a", 1.0, "bell")

    with pytest.raises(RuntimeError) as caught, network.telling():
        network.run()

    (note,) = caught.value.__notes__
    assert "repeat with --sim-seed=42" in note
    assert "Woken(token='bell')" in note


def test_a_failure_of_the_test_itself_carries_the_story_too():
    network, _, _ = pair(seed=42)

    with pytest.raises(RuntimeError) as caught, network.telling():
        raise RuntimeError("not as it should be")

    assert "start a" in caught.value.__notes__[0]


def test_hostile_faults_are_drawn_from_the_given_randomness():
    drawn = [Faults.hostile(Random(seed)) for seed in range(50)]

    assert drawn == [Faults.hostile(Random(seed)) for seed in range(50)]
    assert {faults.drop > 0.0 for faults in drawn} == {True, False}
