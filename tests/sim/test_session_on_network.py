"""A session carries every frame once and in order over connections that break, or it ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from danaus._core import session_events as s
from danaus._core.session import Session
from danaus.testing.network import Arrived, Faults, SimEvent, SimNetwork, Woken

pytestmark = pytest.mark.timeout(240)

LIMITS = s.SessionLimits(
    max_frames=20, max_bytes=500, ack_frames=4, ack_bytes=100, hello_within=1.0, resume_within=20.0
)


class Side:
    """One process: it makes sessions one after the other, and connections if it is the dialler."""

    def __init__(self, world: World, name: str, peer: str, life: int) -> None:
        self.world = world
        self.network = world.network
        self.name = name
        self.peer = peer
        self.life = life
        self.sessions = 0
        self.connection: int | None = None
        self.paused = False
        self.alarm = float("inf")
        self.session = self.new_session()

    def new_session(self) -> Session:
        self.sessions += 1
        self.sent = 0
        self.paused = False
        incarnation = f"{self.name}.{self.life}.{self.sessions}"
        return self.world.kind(self.name, incarnation, self.network.now, LIMITS)

    def start(self) -> None:
        self.network.add(self.name, self.on_event, check=self.check)
        if self.name == "a":
            self.network.wake(self.name, self.network.now, "dial")

    def check(self) -> None:
        self.session.check()

    def on_event(self, event: SimEvent, now: float) -> None:
        match event:
            case Arrived(message=("dialled", int(connection), bool(answer))):
                self.connected(connection, answer, now)
            case Arrived(message=("hangup", int(connection))):
                self.feed(s.Disconnected(connection=connection, reason="hangup"), now)
            case Arrived():
                message: Any = event.message
                self.feed(message, now)
            case Woken(token="dial"):
                self.dial(now)
            case Woken(token=token) if token == self.alarm and not self.world.over:
                self.alarm = float("inf")
                self.feed(s.Tick(), now)
        self.rearm(now)

    def dial(self, now: float) -> None:
        if self.session.state == "down":
            connection = self.world.new_connection()
            self.network.send(self.name, self.peer, ("dialled", connection, True))
        if not self.world.over:
            self.network.wake(self.name, now + 0.3, "dial")

    def connected(self, connection: int, answer: bool, now: float) -> None:
        if connection > (self.connection or 0):  # not a repeated or overtaken datagram
            self.connection = connection
            if answer:
                self.network.send(self.name, self.peer, ("dialled", connection, False))
            self.feed(s.Connected(connection=connection), now)

    def rearm(self, now: float) -> None:
        deadline = self.session.deadline
        if deadline is not None and deadline < self.alarm:
            self.alarm = max(deadline, now)
            self.network.wake(self.name, self.alarm, self.alarm)

    def feed(self, event: s.SessionEvent, now: float) -> None:
        session = self.session
        for command in session.handle(event, now):
            self.perform(command, session, now)

    def perform(self, command: s.SessionCommand, session: Session, now: float) -> None:
        match command:
            case s.Deliver():
                self.world.deliver(self, session, command.payload)
            case s.CloseConnection():
                self.network.send(self.name, self.peer, ("hangup", command.connection))
            case s.PauseSending() | s.ResumeSending():
                self.paused = isinstance(command, s.PauseSending)
            case s.SessionEnded():
                self.world.ended[session.incarnation] = command
                self.session = self.new_session()
                if self.connection is not None and self.network.random.random() < 0.5:
                    self.connection = None  # the driver may also begin anew by itself
            case _:
                self.transmit(command)

    def transmit(self, command: s.SessionCommand) -> None:
        match command:
            case s.SendHello():
                message = s.HelloReceived(
                    connection=command.connection,
                    incarnation=command.incarnation,
                    expected=command.expected,
                    received=command.received,
                )
            case s.SendFrame():
                message = s.FrameReceived(
                    connection=command.connection,
                    seq=command.seq,
                    ack=command.ack,
                    payload=command.payload,
                    nbytes=10,
                )
            case s.SendAck():
                message = s.FrameReceived(connection=command.connection, seq=0, ack=command.ack)
            case _:
                raise AssertionError(f"nobody asked for {command}")
        # Most worlds have connections that keep the order, as TCP does; any may repeat a frame.
        network = self.network
        carry = network.send_in_order if self.world.ordered else network.send
        repeats = self.world.ordered and network.random.random() < network.faults.duplicate
        for _ in range(1 + repeats):
            carry(self.name, self.peer, message)

    def hang_up(self) -> None:
        if self.connection is not None:
            now = self.network.now
            self.feed(s.Disconnected(connection=self.connection, reason="broken"), now)
            self.rearm(now)

    def send(self, now: float) -> None:
        if not self.paused:
            payload = (self.session.incarnation, self.sent)
            self.sent += 1
            self.world.sent[self.session.incarnation] = self.sent
            self.feed(s.SendRequested(payload=payload, nbytes=10), now)
            self.rearm(now)


class World:
    def __init__(self, seed: int, kind: type[Session] = Session) -> None:
        self.network = SimNetwork(seed)
        self.random = self.network.random
        self.kind = kind
        self.network.faults = Faults.hostile(self.random)
        self.ordered = self.random.random() < 0.8
        self.over = False
        self.connections = 0
        self.sent: dict[str, int] = {}
        self.delivered: dict[str, list[int]] = defaultdict(list)
        self.receivers: dict[str, set[str]] = defaultdict(set)
        self.ended: dict[str, s.SessionEnded] = {}
        self.lives = {"a": 1, "b": 1}
        self.sides = {"a": Side(self, "a", "b", 1), "b": Side(self, "b", "a", 1)}
        for side in self.sides.values():
            side.start()

    def new_connection(self) -> int:
        self.connections += 1
        return self.connections

    def deliver(self, side: Side, session: Session, payload: Any) -> None:
        incarnation, number = payload
        got = self.delivered[incarnation]
        assert number == len(got), f"{side.name} got {number} of {incarnation} after {len(got)}"
        got.append(number)
        self.receivers[incarnation].add(session.incarnation)
        assert len(self.receivers[incarnation]) == 1, f"{incarnation} went on in a new session"

    def disturb(self) -> None:
        side = self.sides[self.random.choice("ab")]
        what = self.random.random()
        now = self.network.now
        if what < 0.4:
            side.hang_up()
        elif what < 0.6:
            self.network.reset_link("a", "b") if self.ordered else None
        elif what < 0.7:
            self.network.partition("a", "b")
            self.network.run(until=now + self.random.choice([0.1, 5.0, 30.0]))
            self.network.heal()
        elif what < 0.75:
            self.restart(side.name)

    def restart(self, name: str) -> None:
        self.network.kill(name)
        self.lives[name] += 1
        self.sides[name] = Side(self, name, "b" if name == "a" else "a", self.lives[name])
        self.sides[name].start()

    def run(self) -> None:
        with self.network.telling():
            self.go_on()
            self.settle()
            self.verify()

    def go_on(self) -> None:
        for _ in range(self.random.randint(3, 12)):
            for _ in range(self.random.randint(0, 15)):
                side = self.sides[self.random.choice("ab")]
                side.send(self.network.now)
                if self.random.random() < 0.2:
                    pause = self.random.choice([0.0, 0.01, 1.0])
                    self.network.run(until=self.network.now + pause)
            self.disturb()

    def settle(self) -> None:
        self.network.heal()
        self.network.faults = Faults()
        self.ordered = True
        self.network.run(until=self.network.now + 5.0)
        for side in self.sides.values():  # a connection that is open on one side only: keepalive
            side.hang_up()
        self.network.run(until=self.network.now + 100.0)
        self.over = True
        self.network.run()

    def verify(self) -> None:
        for incarnation, count in self.sent.items():
            side = self.sides[incarnation[0]]
            current = side.session.incarnation == incarnation
            if current:
                assert len(self.delivered[incarnation]) == count, (
                    f"{incarnation}: frames are missing"
                )
                assert side.session.idle, f"{incarnation}: frames are kept for ever"
                assert not side.paused, f"{incarnation}: senders are paused for ever"
            elif incarnation in self.ended:
                payloads: Any = self.ended[incarnation].unacknowledged
                unknown = {number for _, number in payloads}
                known = set(range(count)) - unknown
                assert known <= set(self.delivered[incarnation]), (
                    f"{incarnation}: wrongly confirmed"
                )


def test_every_frame_arrives_once_and_in_order_or_the_session_ends(seeds: Sequence[int]):
    for seed in seeds:
        World(seed).run()


def test_a_session_survives_breaks_and_short_partitions(seeds: Sequence[int]):
    survived = 0
    for seed in seeds[:100]:
        world = World(seed)
        world.run()
        survived += not world.ended and world.connections > 2

    assert survived or len(seeds) == 1


class SessionThatKeepsNothing(Session):
    def _hello_received(self, hello, now, out):
        self._kept.clear()
        self._kept_bytes = 0
        super()._hello_received(hello, now, out)


class SessionThatRepeats(Session):
    def _frame_received(self, frame, now, out):
        if frame.seq and frame.seq == self._received and self._open:
            out.append(s.Deliver(payload=frame.payload))
        super()._frame_received(frame, now, out)


class SessionThatTakesAnyPeer(Session):
    def _mismatch(self, hello):
        self._peer = hello.incarnation
        return ""


class SessionThatNeverAcknowledges(Session):
    def _owe_ack(self, now):
        return False


@pytest.mark.parametrize(
    "broken",
    [
        SessionThatKeepsNothing,
        SessionThatRepeats,
        SessionThatTakesAnyPeer,
        SessionThatNeverAcknowledges,
    ],
)
def test_a_broken_session_is_caught(broken: type[Session]):
    def try_seeds():
        for seed in range(200):
            World(seed, broken).run()

    with pytest.raises(AssertionError) as caught:
        try_seeds()

    assert "--sim-seed=" in caught.value.__notes__[0]
