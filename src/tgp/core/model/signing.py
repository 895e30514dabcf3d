"""A CertificateSigningRequest as it is judged: the requester, the content, and whether it was approved or denied."""

import msgspec

from tgp.core.model.workload import Metadata

KUBELET_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"  # the only signer that tgp handles
TOKEN_GROUP = "system:bootstrappers:tgp"  # noqa: S105 - a group's name: that of the tokens we mint
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
# of the condition by which the operator approves: other approvers use another reason
APPROVAL_REASON = "TokenOfThisNode"


class CsrAnswer(msgspec.Struct, frozen=True, gc=False):
    """A final condition."""

    type: str  # Approved, Denied or Failed
    reason: str = ""


class SigningRequest(Metadata, frozen=True, gc=False, kw_only=True):
    """`username` and `groups` are set by the API server; everything in `document` by the requester."""

    username: str = ""
    groups: tuple[str, ...] = ()
    signer: str = ""
    usages: tuple[str, ...] = ()
    document: bytes = b""  # PEM, as it was sent
    answer: CsrAnswer | None = None  # None: not decided yet

    @property
    def ours(self) -> bool:
        """Is it for the operator to judge? Requests of other clients, and to other signers, are never touched."""
        return not self.unreadable and self.signer == KUBELET_SIGNER and TOKEN_GROUP in self.groups
