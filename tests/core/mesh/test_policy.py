"""The rules that a class needs in its tailnet: every port that joining takes, and none besides."""

import json
import re

import pytest

from tgp.core.joining.mesh.policy import Names, as_acls, as_grants, policy_for
from tgp.core.model.mesh import Backend, MeshSettings

GPU, CONTROL, NODE, OPERATOR = "tag:tgp-gpu", "tag:tgp-control-plane", "tag:tgp-node", "tag:tgp-operator"


def settings(*tags: str, **more) -> MeshSettings:
    return MeshSettings(Backend.TAILSCALE, tags=tags or (GPU,), **more)


def read(text: str) -> dict:
    """As a parser of JSON with comments and trailing commas."""
    bare = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", bare))


def allowed(policy: dict) -> set[tuple[str, str, str]]:
    """(from, to, port) for every single thing that it lets through, of either form."""
    found = set()
    for rule in policy.get("grants", ()):
        found |= {(src, dst, port) for src in rule["src"] for dst in rule["dst"] for port in rule["ip"]}
    for rule in policy.get("acls", ()):
        assert rule["action"] == "accept"
        for target in rule["dst"]:
            dst, _, ports = target.rpartition(":")
            found |= {(src, dst, f"{rule['proto']}:{port}") for src in rule["src"] for port in ports.split(",")}
    return found


JOINING = {
    (GPU, CONTROL, "tcp:6443"),
    (GPU, CONTROL, "tcp:50001"),
    (CONTROL, GPU, "tcp:10250"),
    (CONTROL, GPU, "tcp:50000"),
    *((GPU, other, "udp:4789") for other in (GPU, CONTROL, NODE)),
    *((other, GPU, "udp:4789") for other in (CONTROL, NODE)),
}


@pytest.mark.parametrize("form", [as_grants, as_acls])
def test_both_forms_let_through_what_joining_takes_and_nothing_else(form):
    assert allowed(read(form(policy_for(settings())))) == JOINING


def test_the_operator_s_tag_owns_the_machines_and_no_other_s():
    owners = read(as_grants(policy_for(settings("tag:a", "tag:b"))))["tagOwners"]

    assert owners == {OPERATOR: [], "tag:a": [OPERATOR], "tag:b": [OPERATOR], CONTROL: [], NODE: []}


def test_routes_that_machines_advertise_are_approved_by_their_tags():
    policy = read(as_acls(policy_for(settings(advertise_routes=("10.9.0.0/24",)))))

    assert policy["autoApprovers"] == {"routes": {"10.9.0.0/24": [GPU]}}
    assert "autoApprovers" not in read(as_acls(policy_for(settings())))


def test_the_others_may_be_called_otherwise_or_all_the_same():
    names = Names("tag:minter", "tag:k8s-node", "tag:k8s-node")
    policy = read(as_grants(policy_for(settings(), names)))

    assert policy["tagOwners"] == {"tag:minter": [], GPU: ["tag:minter"], "tag:k8s-node": []}
    assert ("tag:k8s-node", GPU, "tcp:10250") in allowed(policy)


def test_what_people_should_know_is_said_before_it():
    assert "no tags" in as_grants(policy_for(MeshSettings(Backend.TAILSCALE)))
    assert "accept routes" in as_grants(policy_for(settings(accept_routes=True)))
    assert "tag:k8s belongs to the Tailscale operator" in as_grants(policy_for(settings("tag:k8s", "tag:gpu")))
    assert "accept routes" not in as_grants(policy_for(settings()))
