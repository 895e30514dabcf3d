"""The controller manager's part in a join: an approved request of a kubelet gets its certificate.

A real certificate, so that readers see what a cluster issues. Its authority is made of a constant and signs without
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
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.signing import KUBELET_SIGNER
from tgp.sim.apiserver.json_value import Json, mapping_at
from tgp.sim.cluster.component_api import condition, is_true, key_of
from tgp.sim.cluster.controller import ClusterController, StoreCommit

LIFE = timedelta(days=365)  # --cluster-signing-duration
EARLIER = timedelta(minutes=5)
NODE_USAGES = ({"digital signature", "client auth"}, {"digital signature", "key encipherment", "client auth"})
AUTHORITY = ed25519.Ed25519PrivateKey.from_private_bytes(sha256(b"the authority of a world that pretends").digest())
ISSUER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])


class Signer(ClusterController):
    name = "csrsigning"
    watched = (CERTIFICATE_SIGNING_REQUEST,)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        return (key_of(commit.obj),) if commit.after is not None and is_true(commit.after, "Approved") else ()

    def reconcile(self, key: ObjectKey) -> float | None:
        request = self.api.get(CERTIFICATE_SIGNING_REQUEST, "", key.name)
        if request is None or request["spec"]["signerName"] != KUBELET_SIGNER or not is_true(request, "Approved"):
            return None
        if mapping_at(request, "status").get("certificate") or condition(request, "Failed") is not None:
            return None
        self.api.edit_status(CERTIFICATE_SIGNING_REQUEST, "", key.name, lambda status: self._answer(request, status))
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
        now = self.api.now().replace(microsecond=0)
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
    """Node names make common names of more than the 64 bytes that a standard allows: accepted here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _check(asked: x509.CertificateSigningRequest, subject: x509.Name, usages: list[str]) -> None:
    """What the real signer wants of a kubelet's request, independent of the approver."""
    groups = [part.value for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    names = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if groups != ["system:nodes"] or not names or not names[-1].startswith("system:node:"):
        raise ValueError("subject is not that of a node")
    if any(isinstance(extension.value, x509.SubjectAlternativeName) for extension in asked.extensions):
        raise ValueError("subject alternative names are not allowed")
    if set(usages) not in NODE_USAGES:
        raise ValueError("usages did not match those of a kubelet")
