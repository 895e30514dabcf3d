"""A CertificateSigningRequest as it is judged: who asked, for what, and whether anybody has answered."""

import msgspec

from tgp.core.model.workload import Metadata

KUBELET_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"  # the only signer we speak to
TOKEN_GROUP = "system:bootstrappers:tgp"  # noqa: S105 - a group's name: that of the tokens we mint
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
APPROVAL_REASON = "TokenOfThisNode"  # of the condition by which we approve: whoever else approves says something else


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A condition that ends the matter."""

    type: str  # Approved, Denied or Failed
    reason: str = ""


class SigningRequest(Metadata, frozen=True, gc=False, kw_only=True):
    """`username` and `groups` are the API server's word; everything in `document` is the asker's."""

    username: str = ""
    groups: tuple[str, ...] = ()
    signer: str = ""
    usages: tuple[str, ...] = ()
    document: bytes = b""  # PEM, as it was sent
    answer: Answer | None = None  # None: nobody has said anything yet

    @property
    def ours(self) -> bool:
        """Is it for us to judge? Whatever others ask for, and of other signers, is never touched."""
        return not self.unreadable and self.signer == KUBELET_SIGNER and TOKEN_GROUP in self.groups
