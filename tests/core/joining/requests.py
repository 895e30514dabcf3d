"""Certificate requests, honest and otherwise, as records: what a view would show of them."""

import warnings
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import AttributeOID, NameOID, ObjectIdentifier

from tgp.core.joining.csr import Bearer
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.signing import KUBELET_SIGNER, TOKEN_GROUP, SigningRequest

NODE = "train-1-0a1b2c3d"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TOKEN = f"tgp-0123456789-{'0' * 31}1-1"
UID = "00000000-0000-4000-8000-00000000000a"
BEARER = Bearer("abc123", TOKEN, NODE, NOW + timedelta(minutes=10))
KUBELETS = ("digital signature", "client auth")

Part = tuple[ObjectIdentifier, str]
ORGANISATION, COMMON_NAME = NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME
SUBJECT: tuple[Part, ...] = ((ORGANISATION, "system:nodes"), (COMMON_NAME, f"system:node:{NODE}"))


@cache
def a_key(kind: str = "p256") -> Any:
    match kind:
        case "p256":
            return ec.derive_private_key(0xC0FFEE, ec.SECP256R1())
        case "p384":
            return ec.derive_private_key(0xC0FFEE, ec.SECP384R1())
        case "p192":
            return ec.derive_private_key(0xC0FFEE, ec.SECP192R1())
        case "ed25519":
            return ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)
        case rsa_bits:
            return rsa.generate_private_key(public_exponent=65537, key_size=int(rsa_bits))


def a_document(
    subject: Sequence[Part] = SUBJECT,
    *,
    key: str = "p256",
    names: Sequence[str] = (),
    address: str = "",
    multi: bool = False,  # all parts of the subject in one
    challenge: bool = False,
) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names may be longer, or emptier, than the standard has them
        attributes = [x509.NameAttribute(oid, value, _validate=False) for oid, value in subject]
    rdns = (
        [x509.RelativeDistinguishedName(attributes)]
        if multi
        else [x509.RelativeDistinguishedName([one]) for one in attributes]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(rdns))
    alternatives = [*map(x509.DNSName, names), *([x509.IPAddress(ip_address(address))] if address else [])]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    if challenge:
        builder = builder.add_attribute(AttributeOID.CHALLENGE_PASSWORD, b"let me in")
    algorithm = None if key == "ed25519" else hashes.SHA256()
    return builder.sign(a_key(key), algorithm).public_bytes(serialization.Encoding.PEM)


def forged(document: bytes) -> bytes:
    """The same, with its last signature byte changed."""
    der = bytearray(x509.load_pem_x509_csr(document).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + b64encode(bytes(der)) + b"\n-----END CERTIFICATE REQUEST-----\n"


def a_csr(**changes: Any) -> SigningRequest:
    """A kubelet's, unless something is said to be different."""
    fields: dict[str, Any] = {
        "key": ObjectKey("", "node-csr-1"),
        "uid": UID,
        "resource_version": 7,
        "created_at": NOW - timedelta(seconds=1),
        "username": f"system:bootstrap:{BEARER.id}",
        "groups": ("system:bootstrappers", TOKEN_GROUP, "system:authenticated"),
        "signer": KUBELET_SIGNER,
        "usages": KUBELETS,
    }
    fields |= changes
    if "document" not in fields:
        fields["document"] = a_document()
    return SigningRequest(**fields)
