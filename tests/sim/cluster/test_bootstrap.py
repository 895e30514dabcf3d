"""A kubelet without a certificate asks for one with its token, and registers once it was let in, not before."""

from base64 import b64decode, b64encode

import pytest
from cryptography import x509

from tests.sim.cluster.manifests import a_cluster, condition
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST as REQUEST
from tgp.api.resource import NODE, SECRET, Resource
from tgp.core.model.signing import KUBELET_SIGNER
from tgp.services.shipped import operator_rights
from tgp.sim.cluster.bootstrap import signing_request
from tgp.sim.cluster.machines import Hardware
from tgp.sim.cluster.signer import AUTHORITY

ROLES = "rbac.authorization.k8s.io"
KINDS = {
    "ClusterRole": Resource(ROLES, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(ROLES, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
}
TOKEN = "abc123.0123456789abcdef"
LONG = "n" * 63  # as long a name as a Node may have


def a_token(cluster, **data):
    values = {
        "token-id": "abc123",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:tgp",
        **data,
    }
    cluster.api.create(
        SECRET,
        {
            "metadata": {"name": "bootstrap-token-abc123", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": values,
        },
    )


def may_ask(cluster):
    """The shipped role of those who bear a token."""
    for document in operator_rights():
        if document["metadata"]["name"] == "tgp-bootstrapper":
            cluster.api.create(KINDS[document["kind"]], document)


def a_guest(name="gpu-1", **rest):
    return Hardware(name, bootstrap_token=TOKEN, provider_id="tgp://sim/1", **rest)


def requests(cluster):
    return list(cluster.api.objects(REQUEST))


def answer(cluster, verdict="Approved"):
    (request,) = [request for request in requests(cluster) if not request.get("status")]
    said = {"type": verdict, "status": "True", "reason": "Test", "message": "so"}
    cluster.api.update(REQUEST, {**request, "status": {"conditions": [said]}}, "approval")


def test_it_waits_until_it_is_let_in_and_then_registers():
    with a_cluster() as cluster:
        may_ask(cluster)
        a_token(cluster)
        cluster.plane.power_on(a_guest())
        cluster.world.run(minutes=10)
        (request,) = requests(cluster)
        assert cluster.api.get(NODE, "", "gpu-1") is None
        assert request["spec"]["username"] == "system:bootstrap:abc123"
        assert "system:bootstrappers:tgp" in request["spec"]["groups"]
        answer(cluster)
        cluster.world.run(minutes=1)
        node = cluster.api.get(NODE, "", "gpu-1")

        assert condition(node, "Ready")["status"] == "True"
        assert node["spec"]["providerID"] == "tgp://sim/1"


def test_what_it_gets_is_a_certificate_for_its_name():
    with a_cluster() as cluster:
        may_ask(cluster)
        a_token(cluster)
        cluster.plane.power_on(a_guest(LONG))
        cluster.world.run(minutes=1)
        answer(cluster)
        cluster.world.run(minutes=1)
        (request,) = requests(cluster)
        certificate = x509.load_pem_x509_certificate(b64decode(request["status"]["certificate"]))

        AUTHORITY.public_key().verify(certificate.signature, certificate.tbs_certificate_bytes)
        with pytest.warns(UserWarning, match="length"):
            assert f"system:node:{LONG}" in certificate.subject.rfc4514_string()
        assert cluster.api.get(NODE, "", LONG)


def test_denied_it_never_registers():
    with a_cluster() as cluster:
        may_ask(cluster)
        a_token(cluster)
        cluster.plane.power_on(a_guest())
        cluster.world.run(minutes=1)
        answer(cluster, "Denied")
        cluster.world.run(hours=1)

        assert cluster.api.get(NODE, "", "gpu-1") is None
        assert len(requests(cluster)) == 1, "the same key asks under the same name"


@pytest.mark.parametrize("why", ["no token", "no role", "expired", "not for this"])
def test_a_token_that_opens_nothing_is_tried_again_and_again(why):
    with a_cluster() as cluster:
        if why != "no role":
            may_ask(cluster)
        if why == "expired":
            a_token(cluster, expiration="2001-02-03T04:05:06Z")
        elif why == "not for this":
            a_token(cluster, **{"usage-bootstrap-authentication": "false"})
        elif why != "no token":
            a_token(cluster)
        cluster.plane.power_on(a_guest())
        cluster.world.run(minutes=5)

        assert requests(cluster) == []
        assert cluster.plane.bootstraps.refused > 10


def test_a_token_that_comes_late_is_found():
    with a_cluster() as cluster:
        may_ask(cluster)
        cluster.plane.power_on(a_guest())
        cluster.world.run(minutes=5)
        a_token(cluster)
        cluster.world.run(minutes=1)

        assert len(requests(cluster)) == 1


def test_switched_on_again_it_has_its_certificate_on_its_disk():
    """Its token may be gone by then."""
    with a_cluster() as cluster:
        may_ask(cluster)
        a_token(cluster)
        cluster.plane.power_on(a_guest(kept_on="disk-1"))
        cluster.world.run(minutes=1)
        answer(cluster)
        cluster.world.run(minutes=1)
        cluster.plane.power_off("gpu-1")
        cluster.api.delete(SECRET, "kube-system", "bootstrap-token-abc123")
        cluster.api.delete(NODE, "", "gpu-1")
        cluster.plane.power_on(a_guest(kept_on="disk-1"))
        cluster.world.run(minutes=2)

        assert cluster.api.get(NODE, "", "gpu-1")
        assert len(requests(cluster)) == 1


def test_another_machine_with_the_same_token_has_to_ask_for_itself():
    with a_cluster() as cluster:
        may_ask(cluster)
        a_token(cluster)
        cluster.plane.power_on(a_guest(kept_on="disk-1"))
        cluster.world.run(minutes=1)
        answer(cluster)
        cluster.world.run(minutes=1)
        cluster.plane.power_off("gpu-1")
        cluster.plane.power_on(a_guest(kept_on="disk-2"))
        cluster.world.run(minutes=2)

        assert len(requests(cluster)) == 2


def test_switched_off_while_it_waits_it_registers_nothing():
    with a_cluster() as cluster:
        may_ask(cluster)
        a_token(cluster)
        cluster.plane.power_on(a_guest())
        cluster.world.run(minutes=1)
        cluster.plane.power_off("gpu-1")
        answer(cluster)
        cluster.world.run(minutes=5)

        assert cluster.api.get(NODE, "", "gpu-1") is None


def test_an_expired_token_is_cleaned_away():
    with a_cluster() as cluster:
        until = cluster.world.clock.now().replace(microsecond=0).isoformat()
        a_token(cluster, expiration=until.replace("+00:00", "Z"))
        cluster.world.run(minutes=1)

        assert cluster.api.get(SECRET, "kube-system", "bootstrap-token-abc123") is None


@pytest.mark.parametrize(
    ("document", "usages"),
    [
        (signing_request("a", "x", groups=("system:masters",)), ["digital signature", "client auth"]),
        (signing_request("a", "x", user="admin"), ["digital signature", "client auth"]),
        (signing_request("a", "x"), ["digital signature", "server auth"]),
    ],
    ids=["another group", "another name", "another use"],
)
def test_the_signer_signs_nothing_but_kubelets_certificates(document, usages):
    """Independent of the approver."""
    with a_cluster() as cluster:
        spec = {"request": b64encode(document).decode(), "signerName": KUBELET_SIGNER, "usages": usages}
        cluster.api.create(REQUEST, {"metadata": {"name": "odd"}, "spec": spec})
        answer(cluster)
        cluster.world.run(minutes=1)
        status = requests(cluster)[0]["status"]

        assert "certificate" not in status
        assert [row["type"] for row in status["conditions"]] == ["Approved", "Failed"]


def test_equal_luck_asks_the_same():
    assert signing_request("a", "x") == signing_request("a", "x") != signing_request("a", "y")
