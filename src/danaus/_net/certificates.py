"""Making the certificates of a job; see `danaus._net.job_key`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["make_bundle"]


def make_bundle(days_before: int, days_after: int) -> str:
    """A new authority, a certificate that it has signed, and the private key of that, as PEM.

    Args:
        days_before: Days before now at which they begin.
        days_after: Days after now at which they end.

    Raises:
        ImportError: The package ``cryptography`` is not installed.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        raise ImportError(
            "making the key of a job needs the package cryptography: pip install cryptography"
        ) from error

    now = datetime.now(UTC)
    begin, end = now - timedelta(days=days_before), now + timedelta(days=days_after)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(
        subject: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
    ) -> x509.Certificate:
        is_authority = key is signer
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("danaus job authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(
                x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None),
                critical=True,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
                critical=False,
            )
            .sign(signer, hashes.SHA256())
        )

    authority, member = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    texts = [
        certificate("danaus job authority", authority, authority),
        certificate("danaus job member", member, authority),
    ]
    private = member.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = serialization.Encoding.PEM
    return "".join(one.public_bytes(pem).decode() for one in texts) + private.decode()
