"""A certificate authority for one test, and the certificate of a server that it signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificates(folder: Path, host: str) -> tuple[Path, Path, Path]:
    """Write and return the authority's certificate, the server's for a host, and its key."""
    own, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = _signed("throw-away", own, "throw-away", own, x509.BasicConstraints(ca=True, path_length=0))
    server = _signed(host, key, "throw-away", own, x509.SubjectAlternativeName([x509.DNSName(host)]))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    written = folder / "root.crt", folder / "server.crt", folder / "server.key"
    for path, content in zip(written, (_pem(root), _pem(server), secret), strict=True):
        path.write_bytes(content)
    return written


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    by: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        key.public_key(),
        x509.random_serial_number(),
        now - timedelta(days=1),
        now + timedelta(days=1),
    )
    return made.add_extension(extension, critical=True).sign(by, hashes.SHA256())
