"""The controller manager's part in a join: an approved request of a kubelet gets its certificate.

A real one, so that whoever reads it sees what a cluster gives. Its authority is made of a constant and signs without
luck, so that equal worlds give equal certificates; it opens nothing anywhere.
"""

import warnings
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST
from tgp.core.model.key import Key
from tgp.core.model.signing import KUBELET_SIGNER
from tgp.sim.apiserver.json_value import Json, mapping_at
from tgp.sim.cluster.controller import Commit, Controller
from tgp.sim.cluster.desk import condition, is_true, key_of

LIFE = timedelta(days=365)  # --cluster-signing-duration
EARLIER = timedelta(minutes=5)
NODE_USAGES = ({"digital signature", "client auth"}, {"digital signature", "key encipherment", "client auth"})
AUTHORITY = ed25519.Ed25519PrivateKey.from_private_bytes(sha256(b"the authority of a world that pretends").digest())
ISSUER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])


class Signer(Controller):
    name = "csrsigning"
    watched = (CERTIFICATE_SIGNING_REQUEST,)

    def concerns(self, commit: Commit) -> Iterable[Key]:
        return (key_of(commit.obj),) if commit.after is not None and is_true(commit.after, "Approved") else ()

    def reconcile(self, key: Key) -> float | None:
        request = self.desk.get(CERTIFICATE_SIGNING_REQUEST, "", key.name)
        if request is None or request["spec"]["signerName"] != KUBELET_SIGNER or not is_true(request, "Approved"):
            return None
        if mapping_at(request, "status").get("certificate") or condition(request, "Failed") is not None:
            return None
        self.desk.edit_status(CERTIFICATE_SIGNING_REQUEST, "", key.name, lambda status: self._answer(request, status))
        return None

    def _answer(self, request: Json, status: Json) -> None:
        try:
            status["certificate"] = b64encode(self._signed(request)).decode()
        except ValueError as error:
            failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": str(error)}
            status["conditions"] = [*status.get("conditions", ()), failed]

    def _signed(self, request: Json) -> bytes:
        asked = x509.load_pem_x509_csr(b64decode(request["spec"]["request"]))
        with long_names():
            subject = asked.subject
        _check(asked, subject, request["spec"]["usages"])
        now = self.desk.now().replace(microsecond=0)
        serial = int.from_bytes(sha256(request["metadata"]["uid"].encode()).digest()[:16], "big") | 1
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ISSUER)
            .public_key(asked.public_key())
            .serial_number(serial)
            .not_valid_before(now - EARLIER)
            .not_valid_after(now + LIFE)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(AUTHORITY, None)
        )
        return certificate.public_bytes(serialization.Encoding.PEM)


@contextmanager
def long_names() -> Iterator[None]:
    """Node names make common names of more than the 64 bytes that a standard allows: nobody here minds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _check(asked: x509.CertificateSigningRequest, subject: x509.Name, usages: list[str]) -> None:
    """What the real signer wants of a kubelet's request, whoever approved it."""
    groups = [part.value for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    names = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if groups != ["system:nodes"] or not names or not names[-1].startswith("system:node:"):
        raise ValueError("subject is not that of a node")
    if any(isinstance(extension.value, x509.SubjectAlternativeName) for extension in asked.extensions):
        raise ValueError("subject alternative names are not allowed")
    if set(usages) not in NODE_USAGES:
        raise ValueError("usages did not match those of a kubelet")
