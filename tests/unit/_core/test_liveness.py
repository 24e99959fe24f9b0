import pytest

from danaus._core.history import InvariantBroken
from danaus._core.liveness import (
    Heard,
    Liveness,
    LivenessCommand,
    LivenessStatistics,
    LivenessTiming,
    PeerAdded,
    PeerDead,
    PeerRecovered,
    PeerRemoved,
    PeerSuspected,
    SendHeartbeat,
    Tick,
)

BEAT = SendHeartbeat(peer="a")


def watching(jitter: float = 0.0) -> Liveness:
    liveness = Liveness(0.0, jitter=lambda: jitter)
    liveness.handle(PeerAdded(peer="a"), 0.0)
    return liveness


def run(liveness: Liveness, until: float) -> list[tuple[float, LivenessCommand]]:
    """Tick at each deadline, and return what was commanded but heartbeats."""
    seen: list[tuple[float, LivenessCommand]] = []
    while liveness.deadline <= until:
        now = liveness.deadline
        commands = liveness.handle(Tick(), now)
        liveness.check()
        seen += [(now, command) for command in commands if command != BEAT]
    return seen


def test_a_new_peer_gets_a_heartbeat_at_once():
    assert Liveness(0.0).handle(PeerAdded(peer="a"), 0.5) == [BEAT]


def test_every_peer_gets_a_heartbeat_each_interval():
    liveness = watching()
    liveness.handle(PeerAdded(peer="b"), 0.0)

    assert liveness.handle(Tick(), 0.9) == []
    assert liveness.handle(Tick(), 1.0) == [BEAT, SendHeartbeat(peer="b")]
    assert liveness.deadline == 2.0


def test_jitter_moves_the_next_beat():
    liveness = watching(jitter=-0.25)

    liveness.handle(Tick(), 1.0)

    assert liveness.deadline == 1.75


def test_a_silent_peer_is_suspected_and_then_dead():
    liveness = watching()

    assert run(liveness, 20.0) == [
        (3.0, PeerSuspected(peer="a", silence=3.0)),
        (10.0, PeerDead(peer="a", silence=10.0)),
    ]
    assert liveness.statistics() == LivenessStatistics(alive=0, suspected=0, dead=1, paused=0.0)


def test_a_peer_that_is_heard_stays_alive():
    liveness = watching()

    for second in range(1, 30):
        assert run(liveness, float(second)) == []
        assert liveness.handle(Heard(peer="a"), float(second)) == []

    assert liveness.statistics().alive == 1


def test_a_suspected_peer_recovers_when_it_is_heard():
    liveness = watching()
    run(liveness, 5.0)

    assert liveness.statistics().suspected == 1
    assert liveness.heard("a", 5.5) == [PeerRecovered(peer="a")]
    assert liveness.statistics().suspected == 0


@pytest.mark.parametrize("peer", ["a", "stranger"])
def test_the_dead_and_strangers_are_not_heard(peer: str):
    liveness = watching()
    run(liveness, 11.0)

    assert liveness.heard(peer, 11.5) == []
    assert liveness.statistics().alive == 0


def test_a_removed_peer_is_watched_no_more():
    liveness = watching()
    run(liveness, 5.0)

    assert liveness.handle(PeerRemoved(peer="a"), 5.0) == []
    assert liveness.handle(PeerRemoved(peer="stranger"), 5.0) == []
    assert run(liveness, 20.0) == []


def test_a_peer_that_is_added_again_starts_afresh():
    liveness = watching()
    run(liveness, 9.0)

    liveness.handle(PeerAdded(peer="a"), 9.0)

    assert run(liveness, 15.0) == [(12.0, PeerSuspected(peer="a", silence=3.0))]


def test_a_pause_of_ours_is_nobodys_silence():
    liveness = watching()
    run(liveness, 2.0)

    assert liveness.handle(Tick(), 100.0) == [BEAT]
    assert liveness.statistics().paused == 97.0
    seen = [command for _, command in run(liveness, 120.0)]
    assert seen == [PeerSuspected(peer="a", silence=4.0), PeerDead(peer="a", silence=10.0)]


def test_after_a_pause_there_is_time_to_read_what_piled_up():
    liveness = watching()
    run(liveness, 9.0)

    assert liveness.handle(Tick(), 50.0) == [BEAT]
    assert liveness.heard("a", 50.1) == [PeerRecovered(peer="a")]


def test_a_pause_that_ends_with_a_message_is_nobodys_silence_either():
    liveness = watching()
    liveness.handle(PeerAdded(peer="b"), 0.0)

    liveness.heard("b", 60.0)

    assert liveness.handle(Tick(), 60.0) == [BEAT, SendHeartbeat(peer="b")]
    assert liveness.statistics().suspected == 0


def test_an_agent_that_is_always_late_still_sees_who_died():
    liveness = watching()
    seen: list[LivenessCommand] = []
    now = 0.0

    for _ in range(16):
        now += 5.0
        seen += [command for command in liveness.handle(Tick(), now) if command != BEAT]
        liveness.check()

    assert [type(command) for command in seen] == [PeerSuspected, PeerDead]


def test_a_beat_that_is_a_little_late_counts():
    liveness = watching()
    now = 0.0

    for _ in range(5):
        now += 1.9
        liveness.handle(Tick(), now)

    assert liveness.statistics().suspected == 1
    assert liveness.statistics().paused == 0.0


def test_a_clock_that_goes_back_kills_nobody_and_goes_on():
    liveness = Liveness(1000.0)
    liveness.handle(PeerAdded(peer="a"), 1000.0)
    liveness.handle(Tick(), 1001.0)

    assert liveness.handle(Tick(), 501.0) == []
    assert liveness.deadline == 502.0
    assert [command for _, command in run(liveness, 520.0)] == [
        PeerSuspected(peer="a", silence=3.0),
        PeerDead(peer="a", silence=10.0),
    ]


@pytest.mark.parametrize("values", [(0.0, 3.0, 10.0), (3.0, 3.0, 10.0), (1.0, 10.0, 10.0)])
def test_timing_that_makes_no_sense_is_refused(values: tuple[float, float, float]):
    interval, suspect, dead = values

    with pytest.raises(ValueError, match=f"got interval={interval:g}, suspect_after={suspect:g}"):
        LivenessTiming(interval=interval, suspect_after=suspect, dead_after=dead)


def test_an_unknown_event_is_refused():
    with pytest.raises(AssertionError):
        watching().handle("nonsense", 0.0)  # pyright: ignore[reportArgumentType]  # the point


def test_the_repr_counts_the_peers():
    assert repr(watching()) == "<Liveness 1 peers, 0 suspected>"


@pytest.mark.parametrize("damage", ["suspected", "future", "immortal"])
def test_check_finds_a_damaged_machine(damage: str):
    liveness = watching()
    liveness.check()

    if damage == "suspected":
        liveness._suspected.add("stranger")
    elif damage == "future":
        liveness._heard["a"] = 7.0
    else:
        liveness._running = 77.0

    with pytest.raises(InvariantBroken, match="liveness"):
        liveness.check()
