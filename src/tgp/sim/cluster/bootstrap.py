"""How a kubelet gets its first certificate: it asks with its bootstrap token, and waits until it is answered.

What it asks for passes the API server's own authentication and roles, as a request over the wire would. Its key is
made of its disk's name and its token, so that equal worlds ask the same.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.signing import KUBELET_SIGNER
from tgp.sim.apiserver.authentication import Authentication
from tgp.sim.apiserver.core import Ask, Core, Write
from tgp.sim.apiserver.json_value import Json, mapping_at
from tgp.sim.apiserver.rbac import AccessAttempt, authorize
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.apiserver.verbs.create import create
from tgp.sim.cluster.component_api import condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.signer import long_names

AGAIN = 15.0  # seconds: a kubelet that was refused ends, and is started again
GROUP, REQUESTS = CERTIFICATE_SIGNING_REQUEST.group, CERTIFICATE_SIGNING_REQUEST.plural


@dataclass(slots=True)
class Asking:
    token: str = field(repr=False)
    disk: str
    then: Callable[[], None]
    request: str  # the name of its CertificateSigningRequest: the same for the same key, as kubelets have it


class Bootstraps(ClusterController):
    """Keys are Node names. `refused` counts the tokens that were refused."""

    name = "kubelet-bootstrap"
    watched = (CERTIFICATE_SIGNING_REQUEST,)

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(core, loop)
        self._core = core
        self._authentication = Authentication(core, unidentified=None)
        self._asking: dict[str, Asking] = {}  # by Node name
        self._nodes: dict[str, str] = {}  # by request name
        self._kept: set[tuple[str, str]] = set()  # (disk, Node): certificates that lie there
        self.refused = 0

    def begin(self, node: str, token: str, disk: str, then: Callable[[], None]) -> None:
        """`then` is called once it has a certificate for that Node: at once, if one lies on its disk."""
        if (disk, node) in self._kept:
            then()
            return
        if node in self._asking:
            return
        name = f"node-csr-{sha256(f'{disk} {token} {node}'.encode()).hexdigest()[:32]}"
        self._asking[node] = Asking(token, disk, then, name)
        self._nodes[name] = node
        self.look_at(ObjectKey("", node))

    def give_up(self, node: str) -> None:
        asking = self._asking.pop(node, None)
        if asking is not None:
            del self._nodes[asking.request]
            self.call_off(ObjectKey("", node))

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        node = self._nodes.get(commit.obj["metadata"]["name"])
        return (ObjectKey("", node),) if node is not None else ()

    def reconcile(self, key: ObjectKey) -> float | None:
        asking = self._asking.get(key.name)
        if asking is None:
            return None
        request = self.api.get(CERTIFICATE_SIGNING_REQUEST, "", asking.request)
        if request is None:
            return self._ask(key.name, asking)
        if condition(request, "Denied") is not None or condition(request, "Failed") is not None:
            return AGAIN
        if mapping_at(request, "status").get("certificate"):
            self._kept.add((asking.disk, key.name))
            self.give_up(key.name)
            asking.then()
        return None

    def _ask(self, node: str, asking: Asking) -> float:
        """As the user that the token authenticates."""
        user = self._authentication.user_of(asking.token)
        attempt = AccessAttempt("create", GROUP, REQUESTS)
        if user is None or not authorize(self._core, user, attempt).allowed:
            self.refused += 1
            return AGAIN
        write = Write(self._core, self._core.registry.of(CERTIFICATE_SIGNING_REQUEST), Ask(user))
        try:
            create(write, manifest(asking.request, signing_request(node, f"{asking.disk}\n{asking.token}")))
        except Failure:
            self.refused += 1
        return AGAIN


def signing_request(node: str, luck: str, groups: tuple[str, ...] = ("system:nodes",), user: str = "") -> bytes:
    """A kubelet's, PEM; of equal luck the same. `user` and `groups` are for tests of impersonation."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    with long_names():
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user or f"system:node:{node}", _validate=False))
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    signed = request.sign(_key(f"{luck}\n{node}"), hashes.SHA256(), ecdsa_deterministic=True)
    return signed.public_bytes(serialization.Encoding.PEM)


def _key(luck: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(sha256(luck.encode()).digest()[:31], "big") + 1, ec.SECP256R1())


def manifest(name: str, document: bytes) -> Json:
    spec = {
        "request": b64encode(document).decode(),
        "signerName": KUBELET_SIGNER,
        "usages": ["digital signature", "client auth"],
    }
    return {"metadata": {"name": name}, "spec": spec}
