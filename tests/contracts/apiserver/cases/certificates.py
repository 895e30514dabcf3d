"""Certificate signing requests: asked by one, approved by another, and the answer cannot be taken back."""

import base64
from typing import Any

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST as REQUEST

# For O=system:nodes, CN=system:node:contract-1; its key was thrown away.
ASKED = b"""-----BEGIN CERTIFICATE REQUEST-----
MIHzMIGaAgEAMDgxFTATBgNVBAoMDHN5c3RlbTpub2RlczEfMB0GA1UEAwwWc3lz
dGVtOm5vZGU6Y29udHJhY3QtMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNDL
UUfnCPenS8LEuknDvxGV30sIQtZgqBISijRpbQbbmVyKLZVlVq4bei+163Wr7ZiY
ETx7a2vtkLI5KvADfPSgADAKBggqhkjOPQQDAgNIADBFAiEAylHvd2RqV/0tTbGa
Z7cE7A6LSH29rqt3vMVvj42sLq0CIDRTqGkqqZ98NCHCZVS8o1n74W8o+rEiH0h0
cgiMx0c3
-----END CERTIFICATE REQUEST-----
"""
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
TOKEN_GROUP = "system:bootstrappers:tgp"  # a group's name
NODE, APPROVER = "system:bootstrap:abcdef", "system:bootstrap:ghijkl"


def _request(api: Api, name: str = "csr", **spec: Any) -> Json:
    asked: Json = {
        "request": base64.b64encode(ASKED).decode(),
        "signerName": SIGNER,
        "usages": ["digital signature", "client auth"],
        **spec,
    }
    return {"metadata": {"name": f"{api.namespace}.{name}"}, "spec": asked}


def _name(api: Api, name: str = "csr") -> str:
    return f"{api.namespace}.{name}"


def _condition(kind: str, **more: str) -> Json:
    return {"type": kind, "status": "True", "reason": "Contract", "message": "as agreed", **more}


@case(Area.CERTIFICATE)
async def a_request_says_who_made_it(api: Api) -> None:
    made = await api.create(REQUEST, _request(api, username="forged", groups=["forged"]))
    assert made.status == 201
    assert "system:masters" in made["spec.groups"]
    assert made["spec.username"] != "forged"
    api.note("who", made["spec.username"])


@case(Area.CERTIFICATE)
async def a_request_of_another_is_recorded_as_theirs(api: Api) -> None:
    role: Json = {"rules": [{"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["create", "get"]}]}
    await _grant(api, NODE, role)
    node = api.acting_as(NODE, TOKEN_GROUP)
    made = await node.create(REQUEST, _request(api))
    assert made.status == 201
    assert made["spec.username"] == NODE
    assert TOKEN_GROUP in made["spec.groups"]


async def _grant(api: Api, user: str, role: Json) -> None:
    """Let a user, whom no other case grants anything, do what `role` says, everywhere."""
    path = "/apis/rbac.authorization.k8s.io/v1"
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": api.namespace}}
    await api.quiet.call("POST", f"{path}/clusterroles", {**kind, "kind": "ClusterRole", **role})
    binding: Json = {
        **kind,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": api.namespace},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await api.quiet.call("POST", f"{path}/clusterrolebindings", binding)

    async def allowed(_: Api) -> bool:
        node = api.quiet.acting_as(user, TOKEN_GROUP)
        return (await node.get(REQUEST, "absent")).status == 404

    await api.eventually(allowed)


@case(Area.CERTIFICATE)
async def an_answer_needs_leave_from_the_signer_too(api: Api) -> None:
    """Who may write to the door of approvals may still approve nothing, or one signer's only."""
    doors = ["certificatesigningrequests/approval", "certificatesigningrequests/status"]
    both: list[Json] = [
        {"apiGroups": ["certificates.k8s.io"], "resources": doors, "verbs": ["patch", "update"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "resourceNames": [SIGNER, "wild.tgp.io/*"],
            "verbs": ["approve"],
        },
    ]
    await _grant(api, APPROVER, {"rules": both})
    client = api.acting_as(APPROVER, TOKEN_GROUP)
    for name, signer, allowed in (
        ("a", SIGNER, True),
        ("b", "kubernetes.io/kube-apiserver-client", False),
        ("c", "wild.tgp.io/any", True),
    ):
        made = await api.create(REQUEST, _request(api, name, signerName=signer))
        expected: Json = {"resourceVersion": made["metadata.resourceVersion"], "uid": made["metadata.uid"]}
        for verdict in ("Denied",) if name == "c" else ("Approved", "Denied"):
            said: Json = {"metadata": expected, "status": {"conditions": [_condition(verdict)]}}
            answer = await client.patch(REQUEST, _name(api, name), said, "approval")
            assert answer.status == (403 if not allowed else 200 if verdict == "Approved" or name == "c" else 409)
        standing = (await api.quiet.get(REQUEST, _name(api, name))).body["status"].get("conditions", [])
        failed: Json = {"status": {"conditions": [*standing, _condition("Failed")]}}
        assert (await client.patch(REQUEST, _name(api, name), failed, "status")).status == 403
        seen: Json = {"metadata": {"labels": {"seen": "yes"}}}
        assert (await client.patch(REQUEST, _name(api, name), seen, "status")).status == 200


@case(Area.CERTIFICATE)
async def a_verdict_comes_and_goes_through_no_other_door(api: Api) -> None:
    await api.create(REQUEST, _request(api, signerName="contract.tgp.io/mine"))
    sneaked: Json = {"status": {"conditions": [_condition("Approved")]}}
    assert (await api.patch(REQUEST, _name(api), sneaked, "status")).status == 422
    assert (await api.patch(REQUEST, _name(api), sneaked, "approval")).status == 200
    lost: Json = {"status": {"conditions": [_condition("Failed")]}}
    assert (await api.patch(REQUEST, _name(api), lost, "status")).status == 422
    kept: Json = {"status": {"conditions": [_condition("Approved"), _condition("Failed")]}}
    assert (await api.patch(REQUEST, _name(api), kept, "status")).status == 200
    assert (await api.patch(REQUEST, _name(api), {"status": {"conditions": None}}, "approval")).status == 422


@case(Area.CERTIFICATE)
async def a_verdict_is_about_the_request_that_was_seen(api: Api) -> None:
    """As our client says it: a patch of the approval that names version and uid."""
    made = await api.create(REQUEST, _request(api))
    verdict: Json = {"conditions": [_condition("Approved")]}
    seen: Json = {"resourceVersion": made["metadata.resourceVersion"], "uid": made["metadata.uid"]}
    for wrong in ({"uid": "00000000-0000-0000-0000-000000000000"}, {"resourceVersion": "1"}):
        answer = await api.patch(REQUEST, _name(api), {"metadata": {**seen, **wrong}, "status": verdict}, "approval")
        assert answer.status == (409 if "resourceVersion" in wrong else 422)
    said: Json = {"metadata": seen, "status": verdict}
    first = await api.patch(REQUEST, _name(api), said, "approval")
    assert first.status == 200
    assert (await api.patch(REQUEST, _name(api), said, "approval")).status == 409
    seen = {"resourceVersion": first["metadata.resourceVersion"]}
    other: Json = {"metadata": seen, "status": {"conditions": [_condition("Denied")]}}
    assert (await api.patch(REQUEST, _name(api), other, "approval")).status == 422


@case(Area.CERTIFICATE)
async def a_request_is_approved_through_its_own_door(api: Api) -> None:
    made = await api.create(REQUEST, _request(api))
    approved: Json = {**made.body, "status": {"conditions": [_condition("Approved")]}}
    assert (await api.update(REQUEST, approved)).status == 200
    assert not (await api.get(REQUEST, _name(api)))["status"]
    answer = await api.update(REQUEST, {**approved, "metadata": {"name": _name(api)}}, "approval")
    assert answer.status == 200
    (condition,) = answer["status.conditions"]
    assert condition["lastUpdateTime"]
    assert condition["lastTransitionTime"]


@case(Area.CERTIFICATE)
async def an_approval_cannot_be_taken_back(api: Api) -> None:
    made = await api.create(REQUEST, _request(api))
    answer = await api.update(REQUEST, {**made.body, "status": {"conditions": [_condition("Approved")]}}, "approval")
    undone = await api.update(REQUEST, {**answer.body, "status": {"conditions": []}}, "approval")
    assert undone.status in {200, 422}
    both: Json = {"conditions": [*answer["status.conditions"], _condition("Denied")]}
    assert (await api.update(REQUEST, {**answer.body, "status": both}, "approval")).status == 422


@case(Area.CERTIFICATE)
async def a_denied_request_stays_denied(api: Api) -> None:
    made = await api.create(REQUEST, _request(api))
    denied = await api.update(REQUEST, {**made.body, "status": {"conditions": [_condition("Denied")]}}, "approval")
    assert denied.status == 200
    both: Json = {"conditions": [*denied["status.conditions"], _condition("Approved")]}
    assert (await api.update(REQUEST, {**denied.body, "status": both}, "approval")).status == 422


@case(Area.CERTIFICATE)
async def a_stale_approval_is_refused(api: Api) -> None:
    made = await api.create(REQUEST, _request(api))
    await api.patch(REQUEST, _name(api), {"metadata": {"labels": {"a": "b"}}})
    stale: Json = {**made.body, "status": {"conditions": [_condition("Approved")]}}
    assert (await api.update(REQUEST, stale, "approval")).status == 409


@case(Area.CERTIFICATE)
async def what_is_asked_for_cannot_change(api: Api) -> None:
    await api.create(REQUEST, _request(api))
    changed = await api.patch(REQUEST, _name(api), {"spec": {"usages": ["server auth"], "username": "other"}})
    assert changed.status == 200
    assert changed["spec.usages"] == ["digital signature", "client auth"]


@case(Area.CERTIFICATE)
async def a_malformed_request_is_refused(api: Api) -> None:
    nonsense = base64.b64encode(b"no request at all").decode()
    assert (await api.create(REQUEST, _request(api, "a", request=nonsense))).status == 422
    assert (await api.create(REQUEST, _request(api, "b", signerName="nodomain"))).status == 422
    assert (await api.create(REQUEST, _request(api, "c", usages=["fly"]))).status == 422
    assert (await api.create(REQUEST, _request(api, "d", usages=[]))).status == 422
    assert (await api.create(REQUEST, _request(api, "e", expirationSeconds=5))).status == 422


@case(Area.CERTIFICATE)
async def requests_are_found_by_their_signer(api: Api) -> None:
    await api.quiet.create(REQUEST, _request(api, "a"))
    await api.quiet.create(REQUEST, _request(api, "b", signerName="contract.tgp.io/other"))
    found = await api.list(REQUEST, fieldSelector="spec.signerName=contract.tgp.io/other")
    assert found.names == [_name(api, "b")]


@case(Area.CERTIFICATE)
async def a_certificate_is_written_through_status(api: Api) -> None:
    made = await api.create(REQUEST, _request(api, signerName="contract.tgp.io/mine"))
    bad = base64.b64encode(b"no certificate").decode()
    refused = await api.update(REQUEST, {**made.body, "status": {"certificate": bad}}, "status")
    assert refused.status == 422
