"""The cluster's one certificate authority and what it signs: for serving, for clients, for certificate requests."""

import base64
import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = timedelta(days=7)  # no cluster of ours lives longer
EARLIER = timedelta(minutes=5)  # so that a clock set back by a little does not refuse what was just made
SERVICE_IP = "10.0.0.1"  # the first of the default service range, where in-cluster clients look for the API


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def certificate_data(self) -> str:
        return base64.b64encode(self.certificate).decode()

    @property
    def key_data(self) -> str:
        return base64.b64encode(self.key).decode()


class Authority:
    """Signs what the cluster's parts show one another. Each cluster makes its own and forgets it at its end."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tgp-test-cluster")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(self._key))

    def serving(self, *more: str) -> Pair:
        """For the API server, under every name that a client on this machine may use, and at `more` addresses."""
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        addresses = ("127.0.0.1", "::1", SERVICE_IP, *more)
        return self._issue(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]),
            ExtendedKeyUsageOID.SERVER_AUTH,
            x509.SubjectAlternativeName(
                [*map(x509.DNSName, names), *(x509.IPAddress(ipaddress.ip_address(it)) for it in addresses)]
            ),
        )

    def client(self, user: str, groups: tuple[str, ...]) -> Pair:
        """For a user: Kubernetes reads the name from CN and the groups from O."""
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(subject), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self, subject: x509.Name, purpose: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([purpose]), critical=False
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def signing_request(user: str, groups: tuple[str, ...], dns_names: tuple[str, ...] = ()) -> Pair:
    """A PEM certificate request as a kubelet makes one, with the key it is for."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    )
    if dns_names:
        builder = builder.add_extension(x509.SubjectAlternativeName([*map(x509.DNSName, dns_names)]), critical=False)
    return Pair(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key))


def service_account_key() -> bytes:
    """A PEM RSA key: the API server signs the tokens of service accounts with it."""
    return _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + LIFE)
    )


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
