"""Messages that are lost, repeated and reordered are delivered once and in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from danaus._core.inbox import Inbox, Sequencer
from danaus.testing.network import Arrived, Faults, SimEvent, SimNetwork

pytestmark = pytest.mark.timeout(240)


class World:
    """Senders that repeat everything until it has arrived, as relays do when they are adopted."""

    def __init__(self, seed: int, kind: type[Inbox] = Inbox) -> None:
        self.network = SimNetwork(seed)
        random = self.network.random
        self.network.faults = Faults.hostile(random)
        self.senders = [f"sender {n}" for n in range(random.randint(1, 3))]
        self.receivers = [f"receiver {n}" for n in range(random.randint(1, 3))]
        self.inboxes = {name: kind() for name in self.receivers}
        self.sequencers = {name: Sequencer() for name in self.senders}
        self.sent: dict[tuple[str, str], int] = defaultdict(int)
        self.delivered: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.gone: set[tuple[str, str]] = set()
        for name in self.senders:
            self.network.add(name, lambda event, now: None)
        for name in self.receivers:
            self.network.add(name, self.receiver(name), check=self.inboxes[name].check)

    def receiver(self, name: str):
        def handle(event: SimEvent, now: float) -> None:
            assert isinstance(event, Arrived)
            assert isinstance(event.message, int)
            source, seq = event.source, event.message
            for item in self.inboxes[name].accept(source, seq, seq):
                got = self.delivered[source, name]
                assert item == len(got), f"{source} -> {name}: {item} delivered after {got}"
                assert (source, name) not in self.gone, f"{name} heard {source} after its end"
                got.append(item)

        return handle

    def send_some(self) -> None:
        random = self.network.random
        for _ in range(random.randint(1, 30)):
            pair = random.choice(self.senders), random.choice(self.receivers)
            seq = self.sequencers[pair[0]].next(pair[1])
            self.sent[pair] = seq + 1
            self.network.send(*pair, seq)

    def repeat_all(self) -> None:
        for pair, count in self.sent.items():
            for seq in range(count):
                self.network.send(*pair, seq)

    def drop_a_sender(self) -> None:
        pair = self.network.random.choice(self.senders), self.network.random.choice(self.receivers)
        held = self.inboxes[pair[1]].drop_sender(pair[0])
        assert held == sorted(held)
        self.gone.add(pair)

    def run(self) -> None:
        with self.network.telling():
            self.go_on()
            self.verify()

    def go_on(self) -> None:
        for _ in range(self.network.random.randint(1, 4)):
            self.send_some()
            self.network.run(until=self.network.now + 0.02)
            self.repeat_all()
        if self.network.random.random() < 0.3:
            self.drop_a_sender()
        self.network.run()
        self.network.faults = Faults()
        self.repeat_all()
        self.network.run()

    def verify(self) -> None:
        for pair, count in self.sent.items():
            if pair not in self.gone:
                assert len(self.delivered[pair]) == count, f"{pair}: not all arrived"
        for inbox in self.inboxes.values():
            assert inbox.held == 0
            assert inbox.gaps() == []


def test_every_message_is_delivered_once_and_in_order(seeds: Sequence[int]):
    for seed in seeds:
        World(seed).run()


class InboxWithoutDuplicateCheck(Inbox):
    def accept(self, sender, seq, item):
        return super().accept(sender, seq, item) or (item,)


class InboxWithoutOrder(Inbox):
    def accept(self, sender, seq, item):
        expected = self._expected.get(sender, 0)
        self._expected[sender] = max(expected, seq + 1)
        return () if seq < expected else (item,)


class InboxThatForgets(Inbox):
    def _hold(self, sender, seq, item):
        self._expected[sender] = seq + 1


@pytest.mark.parametrize(
    "broken", [InboxWithoutDuplicateCheck, InboxWithoutOrder, InboxThatForgets]
)
def test_a_broken_inbox_is_caught(broken: type[Inbox]):
    def try_seeds():
        for seed in range(50):
            World(seed, broken).run()

    with pytest.raises(AssertionError) as caught:
        try_seeds()

    assert "--sim-seed=" in caught.value.__notes__[0]


def test_a_failure_tells_how_to_repeat_it():
    with pytest.raises(AssertionError) as caught:
        World(3, InboxWithoutDuplicateCheck).run()

    note = "\n".join(caught.value.__notes__)
    assert "--sim-seed=3" in note
    assert "event at ('receiver" in note


def test_a_seed_that_fails_fails_again_in_the_same_way():
    def failure() -> str:
        with pytest.raises(AssertionError) as caught:
            World(3, InboxWithoutDuplicateCheck).run()
        return f"{caught.value} {caught.value.__notes__}"

    assert failure() == failure()
