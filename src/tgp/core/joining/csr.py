"""May this machine become a Node? One certificate per bootstrap token, for the reserved name only.

A token travels in user data, which a provider stores and the owner of a marketplace host can read. So a client with
a token is treated as hostile: it may become the one Node of the token, once, or nothing.
"""

import re
import warnings
from base64 import b64decode
from binascii import Error as NotBase64
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from tgp.core.model.record import uid_text
from tgp.core.model.signing import SigningRequest

if TYPE_CHECKING:  # 9 MB, loaded only when a machine joins
    from cryptography import x509

NODES_GROUP = "system:nodes"
NODE_PREFIX = "system:node:"
MOST_BYTES = 16 << 10  # of a request: a kubelet's has less than one KiB
RSA_BITS = (2048, 8192)
LEAST_EXPONENT = 65537
SEEN_WITHIN = timedelta(seconds=60)  # our cache of requests may lag behind a machine
SHOWN = 120  # characters of untrusted text

# What kubelets request: with an EC key; with an RSA key or in old releases.
USAGES = (
    frozenset({"digital signature", "client auth"}),
    frozenset({"digital signature", "key encipherment", "client auth"}),
)

_BEARER = re.compile(r"system:bootstrap:([a-z0-9]{6})")
# One block and nothing around it: parsers may disagree about anything else.
_PEM = re.compile(
    rb"-----BEGIN CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\r\n]+?)\r?\n-----END CERTIFICATE REQUEST-----\s*"
)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bootstrap token of ours, as stored in its Secret."""

    id: str
    token: str  # of the attempt it was made for
    node: str  # the only Node it may become
    expires_at: datetime
    used_by: str = ""  # uid of the certificate request it was used for; empty: unused


@dataclass(frozen=True, slots=True)
class AttemptClaim:
    """The attempt that the token was made for, as recorded in its GPURequest."""

    waits: bool  # the attempt is open, and its machine is expected
    node: str  # the name reserved
    taken: bool = False  # a Node of that name exists: it belongs to another machine, as this one has no certificate yet


@dataclass(frozen=True, slots=True)
class Ignore:
    """Not a request for us, or already answered."""


@dataclass(frozen=True, slots=True)
class Later:
    """Not decided yet: check again then."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Approve:
    node: str


@dataclass(frozen=True, slots=True)
class Deny:
    """Final. `why` is shown to users and may quote the requester, shortened."""

    reason: str
    why: str


Judgement: TypeAlias = Ignore | Later | Approve | Deny


def token_id_of(username: str) -> str:
    """The id of the bootstrap token of the requester; empty: none."""
    found = _BEARER.fullmatch(username)
    return found[1] if found else ""


def judge_csr(asked: SigningRequest, bearer: Bearer | None, claim: AttemptClaim | None, now: datetime) -> Judgement:
    """`bearer` None: no such token of ours exists (any more). `claim` None: no GPURequest of the token is cached."""
    if not asked.ours or asked.answer is not None or asked.deleting:
        return Ignore()
    if not token_id_of(asked.username):
        return Deny("NoToken", f"{_quoted(asked.username)} is not a bootstrap token")
    if bearer is None:
        return Deny("UnknownToken", "the bootstrap token was not made by this operator, or was revoked")
    if now >= bearer.expires_at:
        return Deny("TokenExpired", f"the bootstrap token of Node {bearer.node} has expired")
    if bearer.used_by not in ("", uid_text(asked.uid)):
        return Deny(
            "TokenUsed", f"the bootstrap token of Node {bearer.node} was already used: each token is valid for one Node"
        )
    return _wrong_with(asked, bearer.node) or _judge_claim(asked, bearer, claim, now)


def _judge_claim(asked: SigningRequest, bearer: Bearer, claim: AttemptClaim | None, now: datetime) -> Judgement:
    if claim is None:
        until = (asked.created_at or now) + SEEN_WITHIN
        if now < until:
            return Later(until)
        return Deny("NotExpected", f"no GPURequest waits for Node {bearer.node}")
    if not claim.waits:
        return Deny("NotExpected", f"the GPURequest of Node {bearer.node} no longer waits for a machine")
    if claim.node != bearer.node:
        return Deny("NotExpected", f"the reserved name is {claim.node}, not {bearer.node}")
    if claim.taken:
        return Deny("NameTaken", f"Node {bearer.node} already exists and belongs to another machine")
    return Approve(bearer.node)


def _wrong_with(asked: SigningRequest, node: str) -> Deny | None:
    """A denial for anything that a kubelet of that Node would not request; None: nothing found."""
    if frozenset(asked.usages) not in USAGES or len(set(asked.usages)) != len(asked.usages):
        return Deny("WrongUsages", f"a kubelet requests a client certificate, not {_quoted(', '.join(asked.usages))}")
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return _wrong_with_document(asked.document, node)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        return Deny("Unreadable", "the certificate request cannot be parsed")


def _wrong_with_document(document: bytes, node: str) -> Deny | None:
    from cryptography import x509

    block = _PEM.fullmatch(document) if len(document) <= MOST_BYTES else None
    if block is None:
        return Deny("Unreadable", "the request is not exactly one PEM block of a certificate request")
    request = x509.load_der_x509_csr(_decoded(block[1]))
    if why := _wrong_name(_subject(request), node):
        return Deny("WrongName", why)
    if len(request.attributes):  # extensions, alternative names among them, are one of these
        return Deny("ExtraNames", "a kubelet's request has a subject and no further names, extensions or attributes")
    if why := _weak(request.public_key()):
        return Deny("WeakKey", why)
    if not request.is_signature_valid:
        return Deny("Unreadable", "the request is not signed by its own key")
    return None


def _decoded(block: bytes) -> bytes:
    try:
        return b64decode(b"".join(block.split()), validate=True)
    except NotBase64 as error:
        raise ValueError("not base64") from error


def _subject(request: "x509.CertificateSigningRequest") -> "x509.Name":
    """Without the reader's warning about common names beyond 64 bytes: Node names may be longer in Kubernetes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return request.subject


def _wrong_name(subject: "x509.Name", node: str) -> str:
    """Exactly the group of nodes and this Node's name, each once and on its own: no parser can read it differently."""
    from cryptography.x509.oid import NameOID

    parts = [[(part.oid, part.value) for part in rdn] for rdn in subject.rdns]
    group, name = [(NameOID.ORGANIZATION_NAME, NODES_GROUP)], [(NameOID.COMMON_NAME, f"{NODE_PREFIX}{node}")]
    if parts in ([group, name], [name, group]):
        return ""
    return f"the request is for {_quoted(subject.rfc4514_string())}, but its token is for Node {node} only"


def _weak(key: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    match key:
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1() | ec.SECP384R1() | ec.SECP521R1()):
            return ""
        case rsa.RSAPublicKey():
            least, most = RSA_BITS
            sound = least <= key.key_size <= most and key.public_numbers().e >= LEAST_EXPONENT
            return "" if sound else f"a kubelet does not create an RSA key of {key.key_size} bits"
        case _:
            return "a kubelet does not create a key of this type"


def _quoted(text: str) -> str:
    """Untrusted text on one line, without characters that a terminal or a log would interpret."""
    shown = ascii(text)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
