"""A certificate authority for one test run."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tgp.adapters.http.tls import _load

PEM = serialization.Encoding.PEM
AGES = timedelta(days=365)


class Certificates:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = datetime.now(UTC)
        self._name = _name("test authority")
        authority = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.authority = authority.public_bytes(PEM)

    def server_context(self, host: str = "localhost") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(context, *self._issue("server", host))
        return context

    def client(self, name: str, organisation: str = "") -> tuple[bytes, bytes]:
        """Certificate and key, in PEM."""
        return self._issue(name, "", organisation)

    def _issue(self, name: str, host: str, organisation: str = "") -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(name, organisation), key.public_key())
        if host:
            names: list[x509.GeneralName] = [x509.DNSName(host)]
            if host == "localhost":
                names.append(x509.IPAddress(ip_address("127.0.0.1")))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(PEM)
        plain = serialization.NoEncryption()
        return certificate, key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - AGES)
            .not_valid_after(self._now + AGES)
        )


def _name(common: str, organisation: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(parts)
