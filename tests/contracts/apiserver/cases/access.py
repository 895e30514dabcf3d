"""Who may do what: tokens, reviews, and the words of a refusal."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import (
    ACCESS_REVIEW,
    CAN_I,
    CLUSTER_ROLE,
    ROLE,
    ROLE_BINDING,
    TOKEN_REVIEW,
    WHO_AM_I,
    WIDGET,
    config_map,
    widget,
)
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, NODE, POD, SERVICE_ACCOUNT

RBAC = "rbac.authorization.k8s.io"


async def _allow(api: Api, user: str, *rules: Json, look: str = CONFIG_MAP.plural) -> Api:
    """Give `user` a role in this namespace, wait until the server acts on it, and return their line."""
    quiet = api.quiet
    await quiet.create(ROLE, {"metadata": {"name": "allowed"}, "rules": list(rules)})
    binding: Json = {
        "metadata": {"name": "allowed"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "allowed"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
    }
    made = await quiet.create(ROLE_BINDING, binding)
    assert made.status == 201, made.body
    rule = rules[0]
    attributes: Json = {
        "namespace": api.namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": rule["resources"][0],
        "name": (rule.get("resourceNames") or [""])[0],
    }
    spec: Json = {"user": user, "resourceAttributes": attributes}

    async def settled(looking: Api) -> bool:
        return bool((await looking.create(ACCESS_REVIEW, {"spec": spec}))["status.allowed"])

    await api.eventually(settled)
    return api.acting_as(user)


@case(Area.ACCESS)
async def a_stranger_is_refused_in_words_that_name_the_matter(api: Api) -> None:
    stranger = api.acting_as("stranger")
    listed = await stranger.list(CONFIG_MAP)
    assert listed.status == 403
    assert listed.reason == "Forbidden"
    assert (await stranger.get(WIDGET, "one")).status == 403
    assert (await stranger.list(NODE)).status == 403
    assert (await stranger.list(POD, everywhere=True)).status == 403
    assert (await stranger.create(WIDGET, widget("one"))).status == 403
    assert (await stranger.patch(WIDGET, "one", {"status": {}}, "status")).status == 403
    assert (await stranger.call("DELETE", api.path(CONFIG_MAP))).status == 403
    assert (await stranger.call("GET", "/metrics")).status == 403


@case(Area.ACCESS)
async def a_role_opens_what_it_names_and_nothing_else(api: Api) -> None:
    rule: Json = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}
    user = await _allow(api, "reader", rule)
    assert (await user.create(CONFIG_MAP, config_map("one"))).status == 201
    assert (await user.list(CONFIG_MAP)).names == ["one"]
    assert (await user.patch(CONFIG_MAP, "one", {"data": {"k": "w"}})).status == 403
    assert (await user.delete(CONFIG_MAP, "one")).status == 403
    assert (await user.list(CONFIG_MAP, everywhere=True)).status == 403
    assert (await user.refused_watch(CONFIG_MAP)).status == 403


@case(Area.ACCESS)
async def a_role_may_open_one_name(api: Api) -> None:
    rule: Json = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["one"]}
    user = await _allow(api, "picky", rule)
    await api.quiet.create(CONFIG_MAP, config_map("one"))
    assert (await user.get(CONFIG_MAP, "one")).status == 200
    assert (await user.get(CONFIG_MAP, "two")).status == 403
    assert (await user.list(CONFIG_MAP)).status == 403


@case(Area.ACCESS)
async def a_subresource_has_a_door_of_its_own(api: Api) -> None:
    await api.quiet.create(WIDGET, widget("one"))
    rule: Json = {"apiGroups": ["contract.tgp.io"], "resources": ["widgets/status"], "verbs": ["patch"]}
    attributes_rule: Json = {"apiGroups": ["contract.tgp.io"], "resources": ["widgets"], "verbs": ["get"]}
    user = await _allow(api, "reporter", attributes_rule, rule)
    assert (await user.patch(WIDGET, "one", {"status": {"phase": "x"}}, "status")).status == 200
    assert (await user.patch(WIDGET, "one", {"spec": {"size": 2}})).status == 403


@case(Area.ACCESS)
async def an_apply_that_creates_needs_leave_to_create(api: Api) -> None:
    rule: Json = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]}
    user = await _allow(api, "patcher", rule)
    assert (await user.apply(CONFIG_MAP, config_map("one"), "ann")).status == 403
    await api.quiet.create(CONFIG_MAP, config_map("one"))
    assert (await user.apply(CONFIG_MAP, config_map("one", {"k2": "v"}), "ann")).status == 200


@case(Area.ACCESS)
async def access_reviews_answer_for_any_user(api: Api) -> None:
    rule: Json = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    await _allow(api, "reviewed", rule)
    asked: Json = {"namespace": api.namespace, "verb": "get", "resource": "configmaps"}
    yes = await api.create(ACCESS_REVIEW, {"spec": {"user": "reviewed", "resourceAttributes": asked}})
    assert yes.status == 201
    assert yes["status.allowed"] is True
    no = await api.create(
        ACCESS_REVIEW, {"spec": {"user": "reviewed", "resourceAttributes": {**asked, "verb": "delete"}}}
    )
    assert no["status.allowed"] is False
    path: Json = {"path": "/metrics", "verb": "get"}
    assert (await api.create(ACCESS_REVIEW, {"spec": {"user": "x", "nonResourceAttributes": path}}))[
        "status.allowed"
    ] is False
    masters: Json = {"user": "x", "groups": ["system:masters"], "resourceAttributes": asked}
    assert (await api.create(ACCESS_REVIEW, {"spec": masters}))["status.allowed"] is True


@case(Area.ACCESS)
async def a_malformed_access_review_is_refused(api: Api) -> None:
    asked: Json = {"namespace": api.namespace, "verb": "get", "resource": "configmaps"}
    assert (await api.create(ACCESS_REVIEW, {"spec": {"resourceAttributes": asked}})).status == 422
    assert (await api.create(ACCESS_REVIEW, {"spec": {"user": "x"}})).status == 422


@case(Area.ACCESS)
async def any_user_may_review_own_access(api: Api) -> None:
    rule: Json = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    user = await _allow(api, "curious", rule)
    for verb, allowed in (("get", True), ("update", False)):
        asked: Json = {"namespace": api.namespace, "verb": verb, "resource": "configmaps"}
        answer = await user.create(CAN_I, {"spec": {"resourceAttributes": asked}})
        assert answer.status == 201
        assert answer["status.allowed"] is allowed
    who = await user.create(WHO_AM_I, {})
    assert who["status.userInfo.username"] == "curious"


@case(Area.ACCESS)
async def a_service_account_token_is_minted_and_recognised(api: Api) -> None:
    account = await api.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    request: Json = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    minted = await api.call("POST", api.path(SERVICE_ACCOUNT, "robot", "token"), request)
    assert minted.status == 201
    review = await api.quiet.create(TOKEN_REVIEW, {"spec": {"token": minted["status.token"]}})
    user = review["status.user"]
    api.note("who", [review.status, review["status.authenticated"], user["username"], user["groups"]])
    assert review["status.authenticated"] is True
    assert user["username"] == f"system:serviceaccount:{api.namespace}:robot"
    assert user["uid"] == account.uid


@case(Area.ACCESS)
async def a_token_is_for_its_audience(api: Api) -> None:
    await api.quiet.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["mesh"]}}
    minted = await api.quiet.call("POST", api.path(SERVICE_ACCOUNT, "robot", "token"), request)
    for audiences, good in ((["mesh"], True), (["other"], False), ([], False)):
        spec: Json = {"token": minted["status.token"], "audiences": audiences}
        review = await api.quiet.create(TOKEN_REVIEW, {"spec": spec})
        api.note(f"for {audiences}", [review["status.authenticated"], review["status.audiences"]])
        assert bool(review["status.authenticated"]) is good


@case(Area.ACCESS)
async def an_unknown_token_is_unauthenticated(api: Api) -> None:
    review = await api.quiet.create(TOKEN_REVIEW, {"spec": {"token": "made-up"}})
    assert review.status == 201
    assert not review["status.authenticated"]
    assert (await api.create(TOKEN_REVIEW, {"spec": {}})).status == 400


@case(Area.ACCESS)
async def a_token_must_live_ten_minutes_and_have_an_account(api: Api) -> None:
    request: Json = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 60},
    }
    await api.quiet.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    short = await api.call("POST", api.path(SERVICE_ACCOUNT, "robot", "token"), request)
    assert short.status == 422
    request["spec"] = {"expirationSeconds": 600}
    assert (await api.call("POST", api.path(SERVICE_ACCOUNT, "absent", "token"), request)).status == 404


@case(Area.ACCESS)
async def a_bootstrap_token_is_a_user_of_its_own(api: Api) -> None:
    """Each rented machine joins with one; its id is in the name the server gives it."""
    token = {"token-id": "abc123", "token-secret": "0123456789abcdef"}
    groups = "system:bootstrappers:tgp"
    body: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abc123"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {**token, "usage-bootstrap-authentication": "true", "auth-extra-groups": groups},
    }
    secrets = "/api/v1/namespaces/kube-system/secrets"
    assert (await api.quiet.call("POST", secrets, body)).status == 201
    spec: Json = {"token": f"{token['token-id']}.{token['token-secret']}"}

    async def known(quiet: Api) -> bool:
        return bool((await quiet.create(TOKEN_REVIEW, {"spec": spec}))["status.authenticated"])

    await api.eventually(known)
    review = await api.quiet.create(TOKEN_REVIEW, {"spec": spec})
    api.note("who", review["status.user"])
    assert review["status.user.username"] == "system:bootstrap:abc123"
    wrong = await api.quiet.create(TOKEN_REVIEW, {"spec": {"token": "abc123.ffffffffffffffff"}})
    assert not wrong["status.authenticated"]
    await api.quiet.call("DELETE", f"{secrets}/bootstrap-token-abc123")


@case(Area.ACCESS)
async def an_expired_bootstrap_token_is_unauthenticated(api: Api) -> None:
    body: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-dead00"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "dead00",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "expiration": "2001-02-03T04:05:06Z",
        },
    }
    secrets = "/api/v1/namespaces/kube-system/secrets"
    assert (await api.quiet.call("POST", secrets, body)).status == 201
    review = await api.quiet.create(TOKEN_REVIEW, {"spec": {"token": "dead00.0123456789abcdef"}})
    assert review.status == 201
    assert not review["status.authenticated"]
    await api.quiet.call("DELETE", f"{secrets}/bootstrap-token-dead00")


@case(Area.ACCESS)
async def a_token_of_a_deleted_account_is_unauthenticated(api: Api) -> None:
    await api.quiet.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    minted = await api.quiet.call("POST", api.path(SERVICE_ACCOUNT, "robot", "token"), request)
    await api.quiet.delete(SERVICE_ACCOUNT, "robot")

    async def forgotten(quiet: Api) -> bool:
        review = await quiet.create(TOKEN_REVIEW, {"spec": {"token": minted["status.token"]}})
        return not review["status.authenticated"]

    await api.eventually(forgotten)  # the real server trusts its cache for a few seconds
    api.note("the token", "is of no account")


@case(Area.ACCESS)
async def a_user_cannot_grant_more_than_it_has(api: Api) -> None:
    rule: Json = {"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["create", "get"]}
    user = await _allow(api, "climber", rule)
    wanted: Json = {
        "metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    refused = await user.quiet.create(ROLE, wanted)
    api.note("refusal", [refused.status, refused.reason, refused.body["details"]])
    assert refused.status == 403
    own: Json = {"metadata": {"name": "own"}, "rules": [rule]}
    assert (await user.create(ROLE, own)).status == 201


@case(Area.ACCESS)
async def a_malformed_role_is_refused(api: Api) -> None:
    assert (
        await api.create(ROLE, {"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["x"]}]})
    ).status == 422
    assert (
        await api.create(CLUSTER_ROLE, {"metadata": {"name": f"{api.namespace}"}, "rules": [{"verbs": ["get"]}]})
    ).status == 422
    binding: Json = {"metadata": {"name": "a"}, "roleRef": {"apiGroup": RBAC, "kind": "Job", "name": "x"}}
    assert (await api.create(ROLE_BINDING, binding)).status == 422


@case(Area.ACCESS)
async def a_binding_keeps_its_role(api: Api) -> None:
    binding: Json = {"metadata": {"name": "a"}, "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "x"}}
    assert (await api.create(ROLE_BINDING, binding)).status == 201
    changed = await api.patch(ROLE_BINDING, "a", {"roleRef": {"name": "y"}})
    assert changed.status == 422
