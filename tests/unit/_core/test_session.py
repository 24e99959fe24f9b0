from typing import Any

import pytest

from danaus._core.history import InvariantBroken
from danaus._core.session import Session
from danaus._core.session_events import (
    CloseConnection,
    CloseRequested,
    Connected,
    Deliver,
    Disconnected,
    FrameReceived,
    GoodbyeReceived,
    HelloReceived,
    PauseSending,
    ResumeSending,
    SendAck,
    SendFrame,
    SendGoodbye,
    SendHello,
    SendRequested,
    SessionEnded,
    SessionLimits,
    Tick,
)

LIMITS = SessionLimits(
    max_frames=4,
    max_bytes=100,
    ack_frames=3,
    ack_bytes=50,
    ack_delay=0.5,
    hello_within=2.0,
    resume_within=10.0,
)


def down_session() -> Session:
    return Session("b", "us.1", 0.0, LIMITS)


def hello(connection: int = 1, **fields: Any) -> HelloReceived:
    return HelloReceived(
        connection=connection,
        **{"incarnation": "peer.1", "expected": "us.1", "received": 0, **fields},
    )


def open_session() -> Session:
    session = down_session()
    session.handle(Connected(connection=1), 0.0)
    session.handle(hello(expected=""), 0.0)
    return session


def request(payload: str = "x", nbytes: int = 1) -> SendRequested:
    return SendRequested(payload=payload, nbytes=nbytes)


def frame(seq: int, ack: int = 0, connection: int = 1, nbytes: int = 1) -> FrameReceived:
    return FrameReceived(
        connection=connection, seq=seq, ack=ack, payload=f"peer {seq}", nbytes=nbytes
    )


def test_a_new_connection_begins_with_our_hello():
    session = down_session()

    commands = session.handle(Connected(connection=1), 1.0)

    assert commands == [SendHello(connection=1, incarnation="us.1", expected="", received=0)]
    assert session.state == "greeting"


def test_frames_wait_for_the_peers_hello():
    session = down_session()
    session.handle(Connected(connection=1), 0.0)

    assert session.handle(request("early"), 0.0) == []
    assert session.handle(hello(expected=""), 0.0) == [
        SendFrame(connection=1, seq=1, ack=0, payload="early")
    ]
    assert session.state == "open"


def test_frames_are_numbered_from_one():
    session = open_session()

    assert session.handle(request("a"), 0.0) == [SendFrame(connection=1, seq=1, ack=0, payload="a")]
    assert session.handle(request("b"), 0.0) == [SendFrame(connection=1, seq=2, ack=0, payload="b")]
    assert not session.idle


def test_a_frame_is_delivered_and_acknowledged_after_a_delay():
    session = open_session()

    assert session.handle(frame(1), 1.0) == [Deliver(payload="peer 1")]
    assert session.deadline == 1.5
    assert session.handle(Tick(), 1.4) == []
    assert session.handle(Tick(), 1.5) == [SendAck(connection=1, ack=1)]
    assert session.deadline is None


def test_an_acknowledgement_rides_on_our_own_frames():
    session = open_session()
    session.handle(frame(1), 0.0)

    assert session.handle(request("a"), 0.1) == [SendFrame(connection=1, seq=1, ack=1, payload="a")]
    assert session.deadline is None


def test_many_frames_are_acknowledged_without_delay():
    session = open_session()
    session.handle(frame(1), 0.0)
    session.handle(frame(2), 0.0)

    assert session.handle(frame(3), 0.0) == [
        Deliver(payload="peer 3"),
        SendAck(connection=1, ack=3),
    ]


def test_many_bytes_are_acknowledged_without_delay():
    session = open_session()

    assert SendAck(connection=1, ack=1) in session.handle(frame(1, nbytes=50), 0.0)


def test_a_second_frame_does_not_postpone_the_acknowledgement():
    session = open_session()
    session.handle(frame(1), 0.0)

    session.handle(frame(2), 0.4)

    assert session.deadline == 0.5


def test_what_was_acknowledged_is_not_kept():
    session = open_session()
    session.handle(request("a"), 0.0)
    session.handle(request("b"), 0.0)

    session.handle(FrameReceived(connection=1, seq=0, ack=1), 0.0)

    assert session.statistics().unacknowledged == 1
    assert session.statistics().unacknowledged_bytes == 1


def test_after_a_reconnect_the_rest_is_sent_again():
    session = open_session()
    session.handle(request("a"), 0.0)
    session.handle(request("b"), 0.0)
    session.handle(Disconnected(connection=1, reason="reset"), 1.0)
    session.handle(request("c"), 1.0)

    assert session.handle(Connected(connection=2), 2.0) == [
        SendHello(connection=2, incarnation="us.1", expected="peer.1", received=0)
    ]
    commands = session.handle(hello(connection=2, received=1), 2.0)

    assert commands == [
        SendFrame(connection=2, seq=2, ack=0, payload="b"),
        SendFrame(connection=2, seq=3, ack=0, payload="c"),
    ]
    assert session.statistics().resent == 2


def test_a_hello_says_what_has_arrived():
    session = open_session()
    session.handle(frame(1), 0.0)
    session.handle(Disconnected(connection=1, reason="reset"), 0.0)

    (command,) = session.handle(Connected(connection=2), 0.0)

    assert command == SendHello(connection=2, incarnation="us.1", expected="peer.1", received=1)


def test_a_frame_that_comes_again_is_dropped_and_acknowledged():
    session = open_session()
    session.handle(frame(1), 0.0)
    session.handle(Tick(), 0.5)

    assert session.handle(frame(1), 1.0) == []
    assert session.handle(Tick(), 1.5) == [SendAck(connection=1, ack=1)]
    assert session.statistics().duplicates == 1


def test_a_gap_ends_the_connection_but_not_the_session():
    session = open_session()

    commands = session.handle(frame(2), 0.0)

    assert commands == [
        CloseConnection(connection=1, reason="frame 2 arrived, but frame 1 did not")
    ]
    assert session.state == "down"


def test_a_frame_before_the_hello_ends_the_connection():
    session = down_session()
    session.handle(Connected(connection=1), 0.0)

    assert session.handle(frame(1), 0.0) == [
        CloseConnection(connection=1, reason="frame 1 arrived, but hello did not")
    ]


def test_a_new_connection_replaces_the_old_one():
    session = open_session()

    commands = session.handle(Connected(connection=2), 0.0)

    assert commands[0] == CloseConnection(connection=1, reason="replaced")
    assert session.state == "greeting"
    assert session.statistics().connections == 2


@pytest.mark.parametrize(
    "event",
    [
        frame(1, connection=7),
        hello(connection=7),
        GoodbyeReceived(connection=7, reason="late"),
        Disconnected(connection=7, reason="late"),
        hello(),
        Tick(),
    ],
)
def test_events_of_other_connections_and_repeated_hellos_mean_nothing(event: Any):
    session = open_session()

    assert session.handle(event, 0.0) == []
    assert session.state == "open"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"incarnation": "peer.2"}, "the peer restarted (was peer.1, is peer.2)"),
        (
            {"expected": "us.0"},
            "the peer expects another session (ours us.1, its us.0)",
        ),
        ({"received": 3}, "the peer has frame 3, but only 2 were sent"),
        ({"received": 0}, "the peer forgot frames that it had acknowledged: its last is 0"),
    ],
)
def test_a_peer_that_is_not_the_same_ends_the_session(fields: dict[str, Any], reason: str):
    session = open_session()
    session.handle(request("a"), 0.0)
    session.handle(request("b"), 0.0)
    session.handle(FrameReceived(connection=1, seq=0, ack=1), 0.0)
    session.handle(Disconnected(connection=1, reason="reset"), 0.0)
    session.handle(Connected(connection=2), 0.0)

    commands = session.handle(hello(connection=2, **{"received": 1, **fields}), 0.0)

    assert commands == [
        CloseConnection(connection=2, reason=reason),
        SessionEnded(reason=reason, orderly=False, unacknowledged=("b",)),
    ]
    assert session.state == "ended"


def test_a_peer_that_acknowledges_the_future_ends_the_session():
    session = open_session()

    commands = session.handle(frame(1, ack=5), 0.0)

    assert commands[-1] == SessionEnded(
        reason="the peer has frame 5, but only 0 were sent", orderly=False, unacknowledged=()
    )


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [99, 1]])
def test_senders_are_paused_at_the_limit_and_resumed_at_half(sizes: list[int]):
    session = open_session()

    pauses = [PauseSending() in session.handle(request(nbytes=size), 0.0) for size in sizes]
    more = session.handle(request(), 0.0)
    resumed = session.handle(FrameReceived(connection=1, seq=0, ack=len(sizes)), 0.0)

    assert pauses == [False] * (len(sizes) - 1) + [True]
    assert PauseSending() not in more
    assert resumed == [ResumeSending()]


def test_senders_stay_paused_above_half():
    session = open_session()
    for _ in range(4):
        session.handle(request(), 0.0)

    assert session.handle(FrameReceived(connection=1, seq=0, ack=1), 0.0) == []


def test_a_connection_without_hello_is_given_up():
    session = down_session()
    session.handle(Connected(connection=1), 1.0)

    assert session.deadline == 3.0
    assert session.handle(Tick(), 3.0) == [
        CloseConnection(connection=1, reason="no hello within 2 s")
    ]
    assert session.state == "down"


def test_a_session_that_is_not_resumed_in_time_ends():
    session = open_session()
    session.handle(request("a"), 0.0)
    session.handle(Disconnected(connection=1, reason="reset"), 5.0)

    assert session.deadline == 15.0
    assert session.handle(Tick(), 15.0) == [
        SessionEnded(reason="not resumed within 10 s", orderly=False, unacknowledged=("a",))
    ]
    assert session.deadline is None


def test_closing_tells_the_peer_and_returns_what_is_unknown():
    session = open_session()
    session.handle(request("a"), 0.0)

    assert session.handle(CloseRequested(reason="stopped"), 0.0) == [
        SendGoodbye(connection=1, reason="stopped"),
        CloseConnection(connection=1, reason="closed: stopped"),
        SessionEnded(reason="closed: stopped", orderly=True, unacknowledged=("a",)),
    ]
    assert session.idle


def test_closing_without_a_connection_ends_the_session():
    session = down_session()

    assert session.handle(CloseRequested(reason="stopped"), 0.0) == [
        SessionEnded(reason="closed: stopped", orderly=True, unacknowledged=())
    ]
    assert session.handle(CloseRequested(reason="again"), 0.0) == []


def test_a_goodbye_of_the_peer_ends_the_session_in_order():
    session = open_session()

    commands = session.handle(GoodbyeReceived(connection=1, reason="stopped"), 0.0)

    ended = SessionEnded(reason="closed by the peer: stopped", orderly=True, unacknowledged=())
    assert commands[-1] == ended


def test_after_the_end_nothing_is_lost_silently():
    session = down_session()
    session.handle(CloseRequested(reason="stopped"), 0.0)

    assert session.handle(request("a"), 0.0) == [
        SessionEnded(reason="closed: stopped", orderly=False, unacknowledged=("a",))
    ]
    assert session.handle(Connected(connection=1), 0.0) == [
        CloseConnection(connection=1, reason="closed: stopped")
    ]
    assert session.handle(Tick(), 99.0) == []


def test_statistics_and_repr_describe_the_session():
    session = open_session()
    session.handle(request(nbytes=7), 0.0)
    session.handle(frame(1), 0.0)

    statistics = session.statistics()

    assert (statistics.state, statistics.sent, statistics.received) == ("open", 1, 1)
    assert (statistics.unacknowledged, statistics.unacknowledged_bytes) == (1, 7)
    assert repr(session) == "<Session b open>"


def test_an_unknown_event_is_refused():
    with pytest.raises(AssertionError):
        down_session().handle("nonsense", 0.0)  # pyright: ignore[reportArgumentType]  # the point


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("_last_sent", 7),
        ("_kept_bytes", 7),
        ("_connection", None),
        ("_ended", "why"),
        ("_told", 7),
        ("_open", False),
        ("_limits", SessionLimits(max_frames=1)),
    ],
)
def test_check_finds_a_damaged_session(field: str, value: object):
    session = open_session()
    session.handle(frame(1), 0.0)
    session.handle(frame(2), 0.0)
    session.handle(request(), 0.0)
    session.handle(frame(3), 0.0)
    session.check()

    setattr(session, field, value)

    with pytest.raises(InvariantBroken, match="session 'b'"):
        session.check()


def test_a_connection_that_was_reset_may_be_resumed_for_longer():
    session = Session("peer", "me", 0.0, SessionLimits(resume_within=3.0))
    open_with(session, 1, 0.0)

    session.handle(Disconnected(connection=1, reason="reset", longer=10.0), 1.0)
    session.handle(Connected(connection=2), 2.0)
    session.handle(Disconnected(connection=2, reason="closed"), 3.0)

    assert session.deadline == pytest.approx(16.0)
    open_with(session, 3, 5.0)
    session.handle(Disconnected(connection=3, reason="closed"), 6.0)
    assert session.deadline == pytest.approx(9.0)


def open_with(session: Session, connection: int, now: float) -> None:
    session.handle(Connected(connection=connection), now)
    session.handle(
        HelloReceived(
            connection=connection, incarnation="peer's", expected=session.incarnation, received=0
        ),
        now,
    )
    assert session.state == "open"
