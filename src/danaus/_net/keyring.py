"""Which job key opens which host, and by which way hosts are reached, for this process.

A process may use hosts of several jobs, each with its own key. An address that it was never told a
key for, but heard of from a peer, is of the job whose key this process has from its own host or
its environment, or else of the only job that it knows.
"""

from __future__ import annotations

from danaus._net.address import parse_tcp
from danaus._net.job_key import JobKey
from danaus.errors import JobKeyError

__all__ = ["Keyring", "keyring"]


class Keyring:
    """The keys of one process.

    Attributes:
        gateway: Address of the host through which all others are reached; empty for none.
    """

    def __init__(self) -> None:
        self._keys: dict[str, JobKey] = {}
        self._own: JobKey | None = None
        self.gateway = ""

    def install(self, key: JobKey) -> None:
        """This process belongs to the job with that key."""
        self._own = key

    @property
    def own(self) -> JobKey:
        """The key of the job that this process belongs to.

        Raises:
            JobKeyError: It belongs to none.
        """
        if self._own is None:
            raise JobKeyError("this process was not told the key of its job")
        return self._own

    def learn(self, address: str, key: JobKey) -> None:
        """The host at that address is of the job with that key."""
        self._keys[address] = key

    def key_for(self, address: str) -> JobKey:
        """The key that opens the host at that address.

        Raises:
            JobKeyError: None is known.
        """
        found = self._keys.get(address) or self._own or JobKey.from_environment()
        if found is None and self._keys and len(set(self._keys.values())) == 1:
            found = next(iter(self._keys.values()))
        if found is None:
            host = parse_tcp(address).host
            raise JobKeyError(
                f"no job key is known for the host {host}, and hosts are reached over TCP with one "
                "only: pass key=, or set DANAUS_JOB_KEY to its path"
            )
        return found


keyring = Keyring()
"""The keys of this process."""
