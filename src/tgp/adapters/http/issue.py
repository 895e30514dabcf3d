"""Makes the certificates of the HTTPS side: an authority of the operator's own, and a leaf signed by it."""

from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING

from tgp.core.access.certificate import (
    AUTHORITY,
    AUTHORITY_KEY,
    AUTHORITY_LIFE,
    CERTIFICATE,
    EARLIER,
    KEY,
    LEAF_LIFE,
    Issue,
)
from tgp.ports.entropy import Entropy

if TYPE_CHECKING:  # 9 MB, loaded only where HTTPS is served
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_NAME = "tgp-operator-ca"
LEAF_NAME = "tgp-operator"
KEY_BYTES = 40  # 64 bits more than the order of the curve has, so that keys are evenly distributed
SERIAL_BYTES = 16
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the curve P-256
LOOPBACK = ("127.0.0.1", "::1")


def issue(
    what: Issue, before: Mapping[str, bytes], names: tuple[str, ...], now: datetime, entropy: Entropy
) -> dict[str, bytes]:
    """The whole data of the Secret. `before`: what it held; its authority is readable unless all is to be made."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    assert what is not Issue.NOTHING, "there is nothing to make"
    if what is Issue.EVERYTHING:
        authority_key = _new_key(entropy)
    else:
        authority_key = load_pem_private_key(before[AUTHORITY_KEY], None)  # type: ignore[assignment]  # one of ours
    if what is Issue.LEAF:
        authority = x509.load_pem_x509_certificate(before[AUTHORITY])
    else:
        authority = _authority(authority_key, now, entropy)
    key = _new_key(entropy)
    leaf = _leaf(key, authority, authority_key, names=names, now=now, entropy=entropy)
    return {
        CERTIFICATE: _pem(leaf),
        KEY: _key_pem(key),
        AUTHORITY: before[AUTHORITY] if what is Issue.LEAF else _pem(authority),
        AUTHORITY_KEY: _key_pem(authority_key),
    }


def _authority(key: "EllipticCurvePrivateKey", now: datetime, entropy: Entropy) -> "x509.Certificate":
    from cryptography import x509

    builder = (
        _builder(key, now, entropy)
        .subject_name(_name(AUTHORITY_NAME))
        .issuer_name(_name(AUTHORITY_NAME))
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key)


def _leaf(
    key: "EllipticCurvePrivateKey",
    authority: "x509.Certificate",
    authority_key: "EllipticCurvePrivateKey",
    *,
    names: tuple[str, ...],
    now: datetime,
    entropy: Entropy,
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    addresses = [x509.IPAddress(ip_address(each)) for each in LOOPBACK]
    builder = (
        _builder(key, now, entropy)
        .subject_name(_name(LEAF_NAME))
        .issuer_name(authority.subject)
        .not_valid_after(min(now + LEAF_LIFE, authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*map(x509.DNSName, names), *addresses]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    return _signed(builder, authority_key)


def _builder(key: "EllipticCurvePrivateKey", now: datetime, entropy: Entropy) -> "x509.CertificateBuilder":
    from cryptography import x509

    serial = int.from_bytes(entropy.token(SERIAL_BYTES), "big") | 1
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - EARLIER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _signed(builder: "x509.CertificateBuilder", key: "EllipticCurvePrivateKey") -> "x509.Certificate":
    """Without luck of its own: equal worlds give equal certificates."""
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)


def _new_key(entropy: Entropy) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    number = int.from_bytes(entropy.token(KEY_BYTES), "big") % (ORDER - 1) + 1
    return ec.derive_private_key(number, ec.SECP256R1())


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
