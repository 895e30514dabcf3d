"""A user's identity, and what the stored roles allow."""

import base64
from datetime import timedelta

import pytest

from tests.core.apiserver.api_client import MAPS, PODS, ApiClient, in_virtual_time
from tgp.api.resource import SECRET, SERVICE_ACCOUNT
from tgp.sim.apiserver.bootstrap import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC
from tgp.sim.apiserver.identity import ANONYMOUS, ApiUser
from tgp.sim.apiserver.rbac import AccessAttempt, authorize, rule_allows

ROLES = f"/apis/{RBAC}/v1"


def _as(token):
    return (("Authorization", f"Bearer {token}"),)


def _grant(client, name, rules, subject):
    client.server.local_api.create(CLUSTER_ROLE, {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    client.server.local_api.create(CLUSTER_ROLE_BINDING, binding)


@pytest.mark.parametrize(
    ("rule", "attempt", "allowed"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, AccessAttempt("get", "", "pods"), True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, AccessAttempt("list", "", "pods"), False),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, AccessAttempt("x", "y", "z", "w"), True),
        ({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods"]}, AccessAttempt("get", "", "pods"), False),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, AccessAttempt("get", "", "pods", "log"), False),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
            AccessAttempt("get", "", "pods", "log"),
            True,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["*/scale"]},
            AccessAttempt("get", "", "pods", "scale"),
            True,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            AccessAttempt("get", "", "pods", "", "b"),
            False,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            AccessAttempt("list", "", "pods"),
            False,
        ),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, AccessAttempt("get", path="/metrics"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, AccessAttempt("get", path="/api/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api"]}, AccessAttempt("get", path="/apis"), False),
    ],
)
def test_a_rule_allows_exactly_what_it_names(rule, attempt, allowed):
    assert rule_allows(rule, attempt) is allowed


@in_virtual_time
async def test_a_user_may_do_what_a_binding_says_and_nothing_else():
    client = ApiClient()
    client.server.authentication.add_token("ann", ApiUser("ann", ("dev",)))
    rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]
    _grant(client, "readers", rules, {"kind": "Group", "name": "dev"})

    assert (await client.ask("GET", PODS, headers=_as("ann"))).status == 200
    refused = await client.ask("POST", MAPS, {}, headers=_as("ann"))
    assert refused.status == 403
    assert refused.json()["message"] == (
        'configmaps is forbidden: User "ann" cannot create resource "configmaps" in API group "" '
        'in the namespace "default"'
    )


@in_virtual_time
async def test_no_user_grants_what_they_do_not_hold():
    client = ApiClient()
    client.server.authentication.add_token("ann", ApiUser("ann"))
    rules = [{"verbs": ["create"], "apiGroups": [RBAC], "resources": ["clusterroles"]}]
    _grant(client, "makers", rules, {"kind": "User", "name": "ann"})
    role = {"metadata": {"name": "more"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}
    refused = await client.ask("POST", f"{ROLES}/clusterroles", role, headers=_as("ann"))

    assert refused.status == 403
    assert "attempting to grant RBAC permissions not currently held" in refused.json()["message"]
    assert (await client.ask("POST", f"{ROLES}/clusterroles", role)).status == 201


@in_virtual_time
async def test_strangers_see_health_and_version_only():
    client = ApiClient(unidentified=ANONYMOUS)

    assert (await client.ask("GET", "/healthz")).status == 200
    assert (await client.ask("GET", "/version")).status == 200
    assert (await client.ask("GET", PODS)).status == 403
    assert (await ApiClient(unidentified=None).ask("GET", PODS)).status == 401
    assert (await client.ask("GET", PODS, headers=_as("made-up"))).status == 401


@in_virtual_time
async def test_a_service_accounts_token_ends_with_its_time_and_with_its_account():
    client = ApiClient()
    robot = client.server.local_api.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot", "namespace": "default"}})
    token, _ = client.server.authentication.issue(robot, timedelta(hours=1), ())
    user = client.server.authentication.user_of(token)

    assert user is not None
    assert user.name == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in user.groups
    client.server.local_api.delete(SERVICE_ACCOUNT, "default", "robot")
    assert client.server.authentication.user_of(token) is None


@in_virtual_time
async def test_a_bootstrap_token_is_its_secret_and_may_become_no_other_user():
    client = ApiClient()
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
    client.server.local_api.create(SECRET, secret)
    user = client.server.authentication.user_of("abcdef.0123456789abcdef")

    assert user is not None
    assert user.name == "system:bootstrap:abcdef"
    assert "system:bootstrappers:tgp" in user.groups
    assert client.server.authentication.user_of("abcdef.wrong") is None


@in_virtual_time
async def test_an_expired_bootstrap_token_is_none():
    client = ApiClient()
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
    client.server.local_api.create(SECRET, secret)

    assert client.server.authentication.user_of("a.b") is None


@in_virtual_time
async def test_an_administrator_may_speak_for_others_and_a_user_may_not():
    client = ApiClient()
    client.server.authentication.add_token("ann", ApiUser("ann"))
    as_bob = (("Impersonate-User", "bob"), ("Impersonate-Group", "dev"))
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    answer = await client.ask("POST", path, review, headers=as_bob)
    assert answer.json()["status"]["allowed"] is False
    refused = await client.ask("POST", path, review, headers=(*_as("ann"), *as_bob))
    assert refused.status == 403
    assert 'User "ann" cannot impersonate resource "users"' in refused.json()["message"]


@in_virtual_time
async def test_a_role_that_aggregates_has_the_rules_of_those_it_selects():
    client = ApiClient()
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [{"verbs": ["get"], "apiGroups": ["tgp.io"], "resources": ["gpurequests"]}]
    client.server.local_api.create(CLUSTER_ROLE, {"metadata": {"name": "tgp-view", "labels": labels}, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "v"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "ann"}]}
    client.server.local_api.create(CLUSTER_ROLE_BINDING, binding)

    assert authorize(client.server.core, ApiUser("ann"), AccessAttempt("get", "tgp.io", "gpurequests")).allowed
    assert not authorize(client.server.core, ApiUser("ann"), AccessAttempt("get", "", "secrets")).allowed
