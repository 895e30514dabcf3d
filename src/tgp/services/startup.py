"""What the operator lacks before it starts: kinds, its namespace, rights. Kinds are installed where it may do that.

Answers of the API server only: a server that is silent may come back, and says nothing about rights.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tgp.adapters.kube.errors import error_for
from tgp.adapters.kube.reviews import review
from tgp.api.crds import crds as definitions
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_REQUEST, NAMESPACE, Resource
from tgp.core.classes.rights import APPLY_RIGHTS, KubeRight, grants_all, single_rights
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterError, Forbidden, NotFound
from tgp.ports.http import Call, Http, HttpError, UnreadableReply
from tgp.services.shipped import operator_rights

RULES_REVIEW = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
USER_REVIEW = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
SHIPPED_NAMESPACE, ACCOUNT = "tgp-system", "tgp-operator"  # in the shipped roles
NOWHERE = "tgp-no-such-namespace"  # what is granted there is granted everywhere
READING = frozenset({"list", "watch"})
OPTIONAL_GROUPS = frozenset({"budget.zxuhan.dev"})  # kinds that need not be installed
SERVED_WITHIN = 60  # looks, half a second apart, until a kind that was installed is served
PAUSE = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class MissingRight:
    right: KubeRight
    namespace: str  # empty: in the whole cluster
    needed: bool  # without it the operator cannot run at all

    @property
    def text(self) -> str:
        return f"{self.right.text} in {f'namespace {self.namespace}' if self.namespace else 'every namespace'}"


@dataclass(frozen=True, slots=True)
class StartupReport:
    user: str  # as the API server calls us; empty: it did not say
    namespace: str  # the operator's
    kinds: tuple[str, ...] = ()  # that are not installed, and that we may not install
    installed: tuple[str, ...] = ()  # by us, just now
    namespace_missing: bool = False
    rights: tuple[MissingRight, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether the operator cannot run like this."""
        return bool(self.kinds) or self.namespace_missing or any(each.needed for each in self.rights)

    def lines(self) -> Iterator[str]:
        """What is missing, each with the command that helps."""
        if self.kinds:
            yield f"These kinds are not installed: {', '.join(self.kinds)}. Install them: tgp crds apply"
        if self.namespace_missing:
            yield f"Namespace {self.namespace} does not exist. Create it: kubectl create namespace {self.namespace}"
        if self.rights:
            yield f"{self.user or 'This user'} may not:"
            yield from (f"  {each.text}" for each in self.rights)
            yield "Grant it:"
            yield from (f"  {command}" for command in grant_commands(self.user, self.rights))


def grant_commands(user: str, rights: Sequence[MissingRight]) -> list[str]:
    """The shipped roles; and for another user than the shipped account, bindings of their own."""
    commands = [APPLY_RIGHTS]
    if not user or user.endswith(f":{ACCOUNT}"):
        return commands
    who = f"--user={user}"
    if user.startswith("system:serviceaccount:"):
        who = f"--serviceaccount={user.removeprefix('system:serviceaccount:')}"
    for namespace in dict.fromkeys(each.namespace for each in rights):
        role = f"kubectl create rolebinding {ACCOUNT}-2 -n {namespace} --role={ACCOUNT}"
        everywhere = f"kubectl create clusterrolebinding {ACCOUNT}-2 --clusterrole={ACCOUNT}"
        commands.append(f"{role if namespace else everywhere} {who}")
    return commands


async def prepare(http: Http, cluster: Cluster, namespace: str, lease: str, *, observe: bool) -> StartupReport:
    """Look, and install missing kinds where that is allowed. Raises ClusterError where the server does not answer.

    `observe`: nothing is written, so only the rights to read are looked at.
    """
    absent = await absent_kinds(http)
    installed: tuple[str, ...] = ()
    if absent and not observe and await _may_install(http):
        installed = await _install(http, cluster, absent)
        absent = ()
    user = str((await review(http, USER_REVIEW, {})).get("userInfo", {}).get("username", ""))
    rights = [each async for each in _missing(http, namespace, lease, observe=observe)]
    return StartupReport(
        user, namespace, absent, installed, not observe and await _absent_namespace(cluster, namespace), tuple(rights)
    )


async def absent_kinds(http: Http) -> tuple[str, ...]:
    """Our kinds that the API server does not serve."""
    served = await _served(http)
    wanted = [definition["spec"]["names"]["kind"] for definition in definitions()]
    return tuple(kind for kind in wanted if kind not in served)


async def _served(http: Http) -> frozenset[str]:
    """The kinds of our group; every user may ask this."""
    reply = await _answer(http, Call("GET", f"/apis/{GPU_REQUEST.api_version}"), "reading the kinds")
    return frozenset(each["kind"] for each in (reply or {}).get("resources") or ())


async def _may_install(http: Http) -> bool:
    group, plural = CUSTOM_RESOURCE_DEFINITION.group, CUSTOM_RESOURCE_DEFINITION.plural
    return await allowed(http, KubeRight("create", group, plural, ""), "")


async def _install(http: Http, cluster: Cluster, absent: Sequence[str]) -> tuple[str, ...]:
    """Their names, once they are served. What cannot be installed is an error of the server's own words."""
    names = []
    for definition in definitions():
        if definition["spec"]["names"]["kind"] in absent:
            with suppress(AlreadyExists):  # one that is there is never changed: it may be newer than ours
                await cluster.create(CUSTOM_RESOURCE_DEFINITION, definition)
            names.append(definition["metadata"]["name"])
    await kinds_served(http)
    return tuple(names)


async def kinds_served(http: Http) -> None:
    """Wait until the kinds that were just created are served; bounded."""
    for _ in range(SERVED_WITHIN):
        if not await absent_kinds(http):
            break
        await asyncio.sleep(PAUSE)


async def _absent_namespace(cluster: Cluster, namespace: str) -> bool:
    try:
        await cluster.read(NAMESPACE, ObjectKey("", namespace))
    except NotFound:
        return True
    except Forbidden:
        return False
    return False


async def _missing(http: Http, namespace: str, lease: str, *, observe: bool) -> AsyncIterator[MissingRight]:
    """Rights of the shipped roles that we do not have. The list of our rules may be incomplete: each miss is asked."""
    for role in operator_rights():
        if role["kind"] not in ("ClusterRole", "Role") or role["metadata"]["name"] != ACCOUNT:
            continue
        where = role["metadata"].get("namespace", "")
        where = namespace if where == SHIPPED_NAMESPACE else where
        status = await review(http, RULES_REVIEW, {"namespace": where or NOWHERE})
        held = status.get("resourceRules") or []
        for right in single_rights(role.get("rules") or ()):
            named = right.named(lease) if right.resource == "leases" and right.name else right
            if observe and (where or right.verb not in READING):
                continue
            if not grants_all(held, named) and not await allowed(http, named, where):
                yield MissingRight(named, where, _needed(named, where, namespace))


def _needed(right: KubeRight, where: str, namespace: str) -> bool:
    """Every cache must be listed, and the Lease held, before anything is done."""
    if right.group in OPTIONAL_GROUPS:
        return False
    return right.verb in READING if not where else where == namespace and right.resource == "leases"


async def allowed(http: Http, right: KubeRight, namespace: str) -> bool:
    """Whether the API server says that this user may. `namespace` empty: in the whole cluster."""
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
        "namespace": namespace,
    }
    status = await review(http, ACCESS_REVIEW, {"resourceAttributes": {k: v for k, v in asked.items() if v}})
    return status.get("allowed") is True


async def _answer(http: Http, call: Call, deed: str) -> dict[str, Any] | None:
    """None: there is no such thing. Raises ClusterError for every other refusal, and for silence."""
    try:
        reply = await http.send(call)
        if reply.ok:
            found: dict[str, Any] = reply.json()
            return found
    except (HttpError, UnreadableReply) as error:
        raise ClusterError(f"{deed}: {error}") from error
    if reply.status == 404:
        return None
    raise error_for(reply, deed, changes=False)
