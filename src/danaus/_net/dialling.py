"""When is a peer on another host dialled again, and when given up?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._net.keyring import keyring
from danaus._net.preface import encode_remote
from danaus._net.tcp import Ending
from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._net.tls import TlsConnection

__all__ = ["Dialling"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds until a peer is dialled again, at first and at most."""

_HANG_UPS = 6
"""Connections that a peer may close before the first one holds; then it is not our peer."""


class Dialling:
    """The dialling side of one link.

    Args:
        address: The agent's: ``tcp://HOST:PORT``.
        wish: What the connections are for.

    Raises:
        JobKeyError: No key is known for that host.
    """

    def __init__(self, address: str, wish: list[Any]) -> None:
        self.address = address
        self.key = keyring.key_for(address)
        self._wish = wish
        self._pause = _FIRST_PAUSE
        self._hang_ups = 0
        self._held = False
        self._give_up_at = 0.0
        self.lost()

    def begin(self, connection: TlsConnection) -> None:
        """Let a new connection dial."""
        preface = encode_remote(self._wish, self.key)
        if self._goes_through():
            gateway = keyring.gateway
            wish = [kinds.THROUGH, self.address, ""]
            preface = encode_remote(wish, keyring.key_for(gateway)) + preface
            connection.dial(gateway, preface)
        else:
            connection.dial(self.address, preface)

    def _goes_through(self) -> bool:
        return bool(keyring.gateway) and keyring.gateway != self.address

    def held(self) -> None:
        """The peer has answered on a connection."""
        self._held = True

    def lost(self) -> None:
        """From now on the peer has its time to be found again."""
        self._give_up_at = time.monotonic() + _config.get("host_dead_after")
        self._pause = _FIRST_PAUSE

    def after(self, connection: TlsConnection, how: Ending, why: str) -> float | str:
        """A connection has failed.

        Returns:
            Seconds until the next attempt, or the text of why there will be none.
        """
        through = self._goes_through()
        if how is Ending.STRANGER or (how is Ending.ABSENT and not through):
            return why
        if connection.is_connected and not self._held:
            self._hang_ups += 1
            if self._hang_ups >= _HANG_UPS:
                return self._hung_up()
        if time.monotonic() > self._give_up_at:
            return self._unreachable(why)
        pause, self._pause = self._pause, min(_LONGEST_PAUSE, 2 * self._pause)
        return pause

    def _unreachable(self, why: str) -> str:
        seconds = _config.get("host_dead_after")
        way = f" through {keyring.gateway}" if self._goes_through() else ""
        return (
            f"{self.address} cannot be reached from here{way}: {why or 'it does not answer'}, for "
            f"{seconds:g} s. Check that the host is up and on this network, that its worker runs, "
            "and that no firewall between here and there drops connections to that port"
        )

    def _hung_up(self) -> str:
        way = f" through {keyring.gateway}" if self._goes_through() else ""
        return (
            f"{self.address} closes every connection{way}: it has another job key, or it is no "
            "Danaus worker. Start it and this client with the same key"
        )
