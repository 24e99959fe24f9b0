"""The key of a job: who holds it belongs to the job, and nobody else does.

It is one text: the certificate of the job's own authority, one certificate that it has signed, and
the private key of that. Every process of the job has the same text. With it both sides of a
connection prove to each other, in TLS 1.3, that they belong to the job; what comes before TLS, the
preface, carries a code that only holders can compute. The authority's own private key is thrown
away when the job key is made: there will never be another certificate.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import cached_property
from typing import TYPE_CHECKING

from danaus.errors import JobKeyError

if TYPE_CHECKING:
    import ssl

__all__ = ["ENVIRONMENT", "JobKey"]

ENVIRONMENT = "DANAUS_JOB_KEY"
"""Variable that holds the path of a job key, or its text."""

_BEGIN = "-----BEGIN "
_DAYS_BEFORE, _DAYS_AFTER = 2, 3650
"""When the certificates begin, for clocks that go wrong, and end: later than any job."""

_CODE = hashlib.sha256


class JobKey:
    """The key of one job.

    Args:
        pem: The text; see `make` and `load`.

    Raises:
        JobKeyError: It is no job key.
    """

    def __init__(self, pem: str) -> None:
        self.pem = pem
        certificates = pem.count("-----BEGIN CERTIFICATE-----")
        secret = pem.partition("-----BEGIN PRIVATE KEY-----")[2]
        secret = secret.partition("-----END PRIVATE KEY-----")[0]
        if certificates != 2 or not secret.strip():  # noqa: PLR2004  # the authority's and ours
            raise JobKeyError(
                "this is no job key: it must hold two certificates and a private key, as "
                "JobKey.make() writes them"
            )
        self._secret = _CODE(b"danaus job key" + "".join(secret.split()).encode()).digest()

    def __repr__(self) -> str:
        return f"<JobKey {self.fingerprint}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobKey) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self._secret)

    @property
    def fingerprint(self) -> str:
        """Eight digits that tell job keys apart, and give nothing away."""
        return _CODE(b"fingerprint" + self._secret).hexdigest()[:8]

    @classmethod
    def make(cls) -> JobKey:
        """A new key, for a new job.

        Raises:
            ImportError: The package ``cryptography`` is not installed.
        """
        from danaus._net.certificates import make_bundle

        return cls(make_bundle(_DAYS_BEFORE, _DAYS_AFTER))

    @classmethod
    def load(cls, path_or_pem: str | os.PathLike[str]) -> JobKey:
        """Read a key from a file, or take the text itself.

        Raises:
            JobKeyError: The file cannot be read, others may read it, or it is no job key.
        """
        text = os.fspath(path_or_pem)
        if _BEGIN in text:
            return cls(text)
        try:
            with open(text, encoding="ascii") as file:
                about = os.fstat(file.fileno())
                if about.st_mode & 0o077 and about.st_uid == os.getuid():
                    raise JobKeyError(
                        f"others may read the job key {text}: say chmod 600 {text}, or make "
                        "another key"
                    )
                return cls(file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise JobKeyError(f"the job key {text!r} cannot be read: {error}") from error

    @classmethod
    def from_environment(cls) -> JobKey | None:
        """The key that DANAUS_JOB_KEY names or holds; None where it is not set.

        Raises:
            JobKeyError: It is set, and names or holds no key.
        """
        text = os.environ.get(ENVIRONMENT)
        return cls.load(text) if text else None

    @classmethod
    def of(cls, given: JobKey | str | os.PathLike[str] | None) -> JobKey | None:
        """The key that a caller has given in one way or another, else that of the environment.

        Raises:
            JobKeyError: It is no key.
        """
        if given is None:
            return cls.from_environment()
        return given if isinstance(given, JobKey) else cls.load(given)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a new file that only this user can read.

        Raises:
            OSError: The file cannot be written.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            os.fchmod(descriptor, 0o600)
            file.write(self.pem)

    def code(self, data: bytes) -> bytes:
        """The code of ``data`` that only holders of the key can compute, 32 bytes."""
        return hmac.digest(self._secret, data, "sha256")

    def fits(self, code: bytes, data: bytes) -> bool:
        """Whether ``code`` is that of ``data``."""
        return hmac.compare_digest(code, self.code(data))

    @cached_property
    def server(self) -> ssl.SSLContext:
        """TLS for whoever was connected to."""
        import ssl  # it is heavy, and only needed between hosts

        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0
        return context

    @cached_property
    def client(self) -> ssl.SSLContext:
        """TLS for whoever connects."""
        import ssl

        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, side: int) -> ssl.SSLContext:
        import ssl

        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Whoever holds the key is a peer: a host's name proves nothing here, and changes.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        authority, _, rest = self.pem.partition("-----END CERTIFICATE-----\n")
        try:
            context.load_verify_locations(cadata=authority + "-----END CERTIFICATE-----\n")
            with _TextFile(rest) as path:
                context.load_cert_chain(path)
        except (ssl.SSLError, OSError) as error:
            raise JobKeyError(f"this job key cannot be used: {error}") from error
        return context


class _TextFile:
    """The path of a file that holds ``text`` while OpenSSL, which takes only paths, reads it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._path = ""
        self._descriptor = -1

    def __enter__(self) -> str:
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
            os.write(self._descriptor, self._text.encode())
            return f"/proc/self/fd/{self._descriptor}"
        import tempfile

        self._descriptor, self._path = tempfile.mkstemp()
        os.write(self._descriptor, self._text.encode())
        return self._path

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)
        if self._path:
            os.unlink(self._path)
