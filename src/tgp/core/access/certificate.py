"""What to do about the Secret with the certificate of the HTTPS side: serve it, renew it, or say why neither works.

A Secret with our label is ours to write. Any other is the user's, or cert-manager's: it is served and never changed.
The key of the authority stays the same when its certificate is renewed, so that a scraper with the older certificate of
the authority goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # 9 MB, loaded only where HTTPS is served
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

OUR_SECRET = "tgp-operator-tls"  # noqa: S105 - a name
AUTHORITY_CONFIG_MAP = "tgp-operator-ca"
MANAGED_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "tgp-operator"
CERTIFICATE, KEY, AUTHORITY, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"  # keys of the Secret

LEAF_LIFE = timedelta(days=90)
AUTHORITY_LIFE = timedelta(days=3650)
EARLIER = timedelta(hours=1)  # a certificate is valid from before it is made: clocks of other hosts may be behind
MOST_BYTES = 64 << 10  # of one key of the Secret


class Issue(Enum):
    """What is to be made."""

    NOTHING = "nothing"
    LEAF = "leaf"  # signed by the authority that is there
    AUTHORITY = "authority"  # a new certificate of the authority that is there, with its key, and a leaf
    EVERYTHING = "everything"  # a new authority, and a leaf


@dataclass(frozen=True, slots=True)
class ServingPair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    not_after: datetime


@dataclass(frozen=True, slots=True)
class StoredCertificate:
    """A Secret as it was read."""

    data: Mapping[str, bytes] = field(repr=False)
    ours: bool  # it has our label


@dataclass(frozen=True, slots=True)
class CertificateStep:
    serve: ServingPair | None  # None: what is served now stays
    issue: Issue = Issue.NOTHING
    why: str = ""  # why it is issued, or what is wrong with a Secret that is not ours; empty: all is well
    authority: bytes = b""  # PEM, for those who verify; empty: the Secret names none


def service_names(namespace: str) -> tuple[str, ...]:
    """What the certificate is for: the Service under its names, and this machine."""
    name = f"tgp-operator.{namespace}"
    return (f"{name}.svc", f"{name}.svc.cluster.local", name, "tgp-operator", "localhost")


def certificate_step(
    found: StoredCertificate | None, secret: str, names: tuple[str, ...], now: datetime, *, may_be_ours: bool
) -> CertificateStep:
    """`found` None: there is no such Secret. `may_be_ours` False: the settings name a Secret of the user's."""
    if found is None:
        if may_be_ours:
            return CertificateStep(None, Issue.EVERYTHING, f"Secret {secret} does not exist")
        return CertificateStep(None, why=f"Secret {secret} does not exist. {_advice(secret)}")
    if may_be_ours and found.ours:
        return _of_ours(found.data, secret, names, now)
    return _of_theirs(found.data, secret, now)


def _of_ours(data: Mapping[str, bytes], secret: str, names: tuple[str, ...], now: datetime) -> CertificateStep:
    authority, why = _authority(data)
    if authority is None:
        return CertificateStep(None, Issue.EVERYTHING, f"Secret {secret}: {why}")
    if overdue := _overdue(authority, now):
        return CertificateStep(None, Issue.AUTHORITY, f"Secret {secret}: the authority's certificate {overdue}")
    try:
        leaf, pair = _read_pair(data)
    except _NotUsable as error:
        return CertificateStep(None, Issue.LEAF, f"Secret {secret}: {error}")
    if not _issued_by(leaf, authority):
        return CertificateStep(None, Issue.LEAF, f"Secret {secret}: the certificate is of another authority")
    if missing := set(names) - set(_names(leaf)):
        why = f"Secret {secret}: the certificate is not for {min(missing)}"
        return CertificateStep(pair, Issue.LEAF, why, data[AUTHORITY])
    if overdue := _overdue(leaf, now):
        return CertificateStep(pair, Issue.LEAF, f"Secret {secret}: the certificate {overdue}", data[AUTHORITY])
    return CertificateStep(pair, authority=data[AUTHORITY])


def _of_theirs(data: Mapping[str, bytes], secret: str, now: datetime) -> CertificateStep:
    try:
        leaf, pair = _read_pair(data)
    except _NotUsable as error:
        return CertificateStep(None, why=f"Secret {secret}: {error}. {_advice(secret)}")
    authority = data.get(AUTHORITY, b"")
    if authority and not _certificates(authority):
        why = f"Secret {secret}: {AUTHORITY} is not a certificate in PEM form, so scrapers cannot verify {CERTIFICATE}"
        return CertificateStep(pair, why=why)
    if leaf.not_valid_after_utc <= now:
        why = f"the certificate expired at {_shown(leaf.not_valid_after_utc)}. Clients refuse it: renew it"
        return CertificateStep(pair, why=f"Secret {secret}: {why}", authority=authority)
    if leaf.not_valid_before_utc > now:
        why = f"the certificate is valid from {_shown(leaf.not_valid_before_utc)}, and the API server's clock says "
        return CertificateStep(pair, why=f"Secret {secret}: {why}{_shown(now)}", authority=authority)
    return CertificateStep(pair, authority=authority)


def _advice(secret: str) -> str:
    namespace, _, name = secret.partition("/")
    return f"Create it: kubectl -n {namespace} create secret tls {name} --cert=FILE --key=FILE"


def _overdue(certificate: "x509.Certificate", now: datetime) -> str:
    """Renewed after two thirds of its life; and at once if the clock is before its life began. Empty: neither."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        return f"is valid from {_shown(begins)}, and the API server's clock says {_shown(now)}"
    if now >= ends:
        return f"expired at {_shown(ends)}"
    return f"ends at {_shown(ends)}" if now >= begins + (ends - begins) * 2 / 3 else ""


# -- reading ---------------------------------------------------------------------------------------------------------


class _NotUsable(Exception):
    """The text says which key of the Secret is wrong, and how."""


def _read_pair(data: Mapping[str, bytes]) -> "tuple[x509.Certificate, ServingPair]":
    """The first certificate of the chain is the server's own."""
    for name in (CERTIFICATE, KEY):
        if not data.get(name, b"").strip():
            raise _NotUsable(f"{name} is missing")
    chain = _certificates(data[CERTIFICATE])
    if not chain:
        raise _NotUsable(f"{CERTIFICATE} is not a certificate in PEM form")
    key = _private_key(data[KEY])
    if key is None:
        raise _NotUsable(f"{KEY} is not a private key in PEM form without a password")
    if not _match(chain[0], key):
        raise _NotUsable(f"{KEY} is not the key of {CERTIFICATE}")
    return chain[0], ServingPair(data[CERTIFICATE], data[KEY], chain[0].not_valid_after_utc)


def _authority(data: Mapping[str, bytes]) -> "tuple[x509.Certificate | None, str]":
    certificates, key = _certificates(data.get(AUTHORITY, b"")), _private_key(data.get(AUTHORITY_KEY, b""))
    if not certificates:
        return None, f"{AUTHORITY} is not a certificate in PEM form"
    if key is None or not _match(certificates[0], key):
        return None, f"{AUTHORITY_KEY} is not the key of {AUTHORITY}"
    return certificates[0], ""


def _certificates(pem: bytes) -> "list[x509.Certificate]":
    """None at all if one of them is not readable."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem) if 0 < len(pem) <= MOST_BYTES else []
    except ValueError:
        return []


def _private_key(pem: bytes) -> "PrivateKeyTypes | None":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, None) if 0 < len(pem) <= MOST_BYTES else None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        return None


def _match(certificate: "x509.Certificate", key: "PrivateKeyTypes") -> bool:
    return certificate.public_key() == key.public_key()


def _issued_by(leaf: "x509.Certificate", authority: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(leaf: "x509.Certificate") -> list[str]:
    from cryptography import x509

    try:
        return leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        )
    except (x509.ExtensionNotFound, ValueError):
        return []


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
