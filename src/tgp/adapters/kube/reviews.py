"""Reviews: the API server is asked who a token belongs to, and what a user may do. Nothing is stored there."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from tgp.adapters.kube.errors import error_for
from tgp.api.resource import Resource
from tgp.core.access.rights import PageRight
from tgp.core.access.token import AUDIENCE, is_for_us
from tgp.core.access.user import KubeUser
from tgp.ports.cluster import ClusterError
from tgp.ports.http import DEFAULT_TIMEOUT, Call, Http, HttpError, UnreadableReply

TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_REVIEW = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)

READER_WAITS = timedelta(seconds=4)  # for each of two: a scraper gives up after ten seconds


async def review(
    http: Http, resource: Resource, spec: Mapping[str, Any], timeout: timedelta = DEFAULT_TIMEOUT
) -> dict[str, Any]:
    """The status of the answer; empty: the API server does not know that review. Raises ClusterError."""
    deed = f"asking for a {resource.kind}"
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    call = Call(
        "POST",
        resource.path(),
        headers=(("Content-Type", "application/json"), ("Accept", "application/json")),
        body=msgspec.json.encode(body),
        timeout=timeout,
    )
    try:
        reply = await http.send(call)
        if reply.ok:
            status: dict[str, Any] = reply.json().get("status") or {}
            return status
    except (HttpError, UnreadableReply) as error:
        raise ClusterError(f"{deed}: {error}") from error
    if reply.status == 404:
        return {}
    raise error_for(reply, deed, changes=True)


class KubeReviews:
    """Every replica asks, whether or not it leads. Each method is one call and raises ClusterError."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def user_of(self, token: str) -> KubeUser | None:
        """None: the token is not valid, or for another audience."""
        for_us = is_for_us(token)
        spec = {"token": token, **({"audiences": [AUDIENCE]} if for_us else {})}
        status = await review(self._http, TOKEN_REVIEW, spec, READER_WAITS)
        if status.get("authenticated") is not True:
            return None
        if for_us and AUDIENCE not in (status.get("audiences") or ()):
            return None  # an authenticator that looks at no audiences
        user = status.get("user") or {}
        groups = tuple(str(each) for each in user.get("groups") or ())
        return KubeUser(str(user.get("username", "")), str(user.get("uid", "")), groups, user.get("extra") or {})

    async def may(self, user: KubeUser, right: PageRight) -> bool:
        who = {"user": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
        spec = {**{name: value for name, value in who.items() if value}, **right.spec()}
        return (await review(self._http, SUBJECT_REVIEW, spec, READER_WAITS)).get("allowed") is True
