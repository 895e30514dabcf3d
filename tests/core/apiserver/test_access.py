"""Who somebody is, and what the stored roles let them do."""

import base64
from datetime import timedelta

import pytest

from tests.core.apiserver.desk import MAPS, PODS, Desk, in_virtual_time
from tgp.api.resource import SECRET, SERVICE_ACCOUNT
from tgp.sim.apiserver.bootstrap import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC
from tgp.sim.apiserver.identity import ANONYMOUS, User
from tgp.sim.apiserver.rbac import Attempt, authorize, rule_allows

ROLES = f"/apis/{RBAC}/v1"


def _as(token):
    return (("Authorization", f"Bearer {token}"),)


def _grant(desk, name, rules, subject):
    desk.server.backstage.create(CLUSTER_ROLE, {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    desk.server.backstage.create(CLUSTER_ROLE_BINDING, binding)


@pytest.mark.parametrize(
    ("rule", "attempt", "allowed"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, Attempt("get", "", "pods"), True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, Attempt("list", "", "pods"), False),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, Attempt("x", "y", "z", "w"), True),
        ({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods"]}, Attempt("get", "", "pods"), False),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, Attempt("get", "", "pods", "log"), False),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}, Attempt("get", "", "pods", "log"), True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["*/scale"]}, Attempt("get", "", "pods", "scale"), True),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            Attempt("get", "", "pods", "", "b"),
            False,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            Attempt("list", "", "pods"),
            False,
        ),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, Attempt("get", path="/metrics"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, Attempt("get", path="/api/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api"]}, Attempt("get", path="/apis"), False),
    ],
)
def test_a_rule_allows_exactly_what_it_names(rule, attempt, allowed):
    assert rule_allows(rule, attempt) is allowed


@in_virtual_time
async def test_a_user_may_do_what_a_binding_says_and_nothing_else():
    desk = Desk()
    desk.server.authentication.add_token("ann", User("ann", ("dev",)))
    rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]
    _grant(desk, "readers", rules, {"kind": "Group", "name": "dev"})

    assert (await desk.ask("GET", PODS, headers=_as("ann"))).status == 200
    refused = await desk.ask("POST", MAPS, {}, headers=_as("ann"))
    assert refused.status == 403
    assert refused.json()["message"] == (
        'configmaps is forbidden: User "ann" cannot create resource "configmaps" in API group "" '
        'in the namespace "default"'
    )


@in_virtual_time
async def test_nobody_grants_what_they_do_not_hold():
    desk = Desk()
    desk.server.authentication.add_token("ann", User("ann"))
    rules = [{"verbs": ["create"], "apiGroups": [RBAC], "resources": ["clusterroles"]}]
    _grant(desk, "makers", rules, {"kind": "User", "name": "ann"})
    role = {"metadata": {"name": "more"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}
    refused = await desk.ask("POST", f"{ROLES}/clusterroles", role, headers=_as("ann"))

    assert refused.status == 403
    assert "attempting to grant RBAC permissions not currently held" in refused.json()["message"]
    assert (await desk.ask("POST", f"{ROLES}/clusterroles", role)).status == 201


@in_virtual_time
async def test_strangers_see_health_and_version_only():
    desk = Desk(unidentified=ANONYMOUS)

    assert (await desk.ask("GET", "/healthz")).status == 200
    assert (await desk.ask("GET", "/version")).status == 200
    assert (await desk.ask("GET", PODS)).status == 403
    assert (await Desk(unidentified=None).ask("GET", PODS)).status == 401
    assert (await desk.ask("GET", PODS, headers=_as("made-up"))).status == 401


@in_virtual_time
async def test_a_service_accounts_token_ends_with_its_time_and_with_its_account():
    desk = Desk()
    robot = desk.server.backstage.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot", "namespace": "default"}})
    token, _ = desk.server.authentication.issue(robot, timedelta(hours=1), ())
    user = desk.server.authentication.user_of(token)

    assert user is not None
    assert user.name == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in user.groups
    desk.server.backstage.delete(SERVICE_ACCOUNT, "default", "robot")
    assert desk.server.authentication.user_of(token) is None


@in_virtual_time
async def test_a_bootstrap_token_is_its_secret_and_may_become_nobody_else():
    desk = Desk()
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:tgp",
        "expiration": "2026-01-05T10:00:00Z",
    }
    secret = {
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    desk.server.backstage.create(SECRET, secret)
    user = desk.server.authentication.user_of("abcdef.0123456789abcdef")

    assert user is not None
    assert user.name == "system:bootstrap:abcdef"
    assert "system:bootstrappers:tgp" in user.groups
    assert desk.server.authentication.user_of("abcdef.wrong") is None


@in_virtual_time
async def test_an_expired_bootstrap_token_is_none():
    desk = Desk()
    plain = {
        "token-id": "a",
        "token-secret": "b",
        "usage-bootstrap-authentication": "true",
        "expiration": "2020-01-01T00:00:00Z",
    }
    secret = {
        "metadata": {"name": "bootstrap-token-a", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": plain,
    }
    desk.server.backstage.create(SECRET, secret)

    assert desk.server.authentication.user_of("a.b") is None


@in_virtual_time
async def test_an_administrator_may_speak_for_others_and_a_user_may_not():
    desk = Desk()
    desk.server.authentication.add_token("ann", User("ann"))
    as_bob = (("Impersonate-User", "bob"), ("Impersonate-Group", "dev"))
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    answer = await desk.ask("POST", path, review, headers=as_bob)
    assert answer.json()["status"]["allowed"] is False
    refused = await desk.ask("POST", path, review, headers=(*_as("ann"), *as_bob))
    assert refused.status == 403
    assert 'User "ann" cannot impersonate resource "users"' in refused.json()["message"]


@in_virtual_time
async def test_a_role_that_aggregates_has_the_rules_of_those_it_selects():
    desk = Desk()
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [{"verbs": ["get"], "apiGroups": ["tgp.io"], "resources": ["gpurequests"]}]
    desk.server.backstage.create(CLUSTER_ROLE, {"metadata": {"name": "tgp-view", "labels": labels}, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "v"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "ann"}]}
    desk.server.backstage.create(CLUSTER_ROLE_BINDING, binding)

    assert authorize(desk.server.core, User("ann"), Attempt("get", "tgp.io", "gpurequests")).allowed
    assert not authorize(desk.server.core, User("ann"), Attempt("get", "", "secrets")).allowed
