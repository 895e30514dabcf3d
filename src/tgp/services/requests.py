"""A cluster's requests for a user at a terminal: read, followed, planned, created. Nothing here can buy."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from tgp.adapters.kube.connect import Connection
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import pods, typed
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.api.decoding import UnreadableObject, decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, NAMESPACE
from tgp.controllers.market.credentials import present_keys
from tgp.core.classes.default_class import IMPLICIT, Why, class_for, class_name, not_allowed
from tgp.core.classes.nodeclass import ClassReferences, Gap, allowed_namespaces_required, gaps_of, missing_keys
from tgp.core.inventory.limits import Reservation, reservation_of, usage_of
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.market.sources import machines_of
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.class_secrets import names, wanted_by
from tgp.core.model.costs import class_of
from tgp.core.model.event import Event
from tgp.core.model.hold import hold_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.reports.request_timeline import timeline_of
from tgp.ports.cluster import (
    AlreadyExists,
    ClusterError,
    Forbidden,
    KindsMissing,
    NotFound,
    Refused,
    Unauthenticated,
    WriteUnknown,
)
from tgp.services.cluster_reads import NO_KINDS, ClusterReads
from tgp.services.market import MarketService
from tgp.services.nodes import NodesReport, gpu_nodes
from tgp.services.owned_machines import OwnedMachineState, owned_machine
from tgp.services.purchase_preview import ClusterState, planned
from tgp.services.request_answers import ClusterStatus, Enquiry, Holder, Look, RentPlan

LOOK_EVERY = 1.0  # seconds between two reads of one object
EVENTS_EVERY = 3  # looks between two lists of its Events
CLOCK_STEP = timedelta(seconds=2)  # timestamps have whole seconds, and one server may lag another
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, as in names that Kubernetes generates
SUFFIX = 5
LONGEST_STEM = 50
ABOUT_SECRETS = frozenset({"CredentialsMissing", "SecretMissing"})  # reasons that were checked just now

MarketReader = Callable[[tuple[str, ...]], AbstractAsyncContextManager[MarketService]]


class RequestService:
    def __init__(self, connection: Connection, market: MarketReader) -> None:
        self._reads = ClusterReads(connection)
        self._entropy = connection.entropy
        self._secret_reader = KubeSecretReader(self._reads.cluster, connection.namespace)
        self._market = market
        self.namespace = self._reads.namespace

    # -- tgp watch -----------------------------------------------------------------------------------------------------

    async def follow(self, key: ObjectKey) -> AsyncGenerator[Look, None]:
        """One look after another. Once the request was seen, only its end ends this: clusters come back."""
        key, looks = self._with_namespace(key), 0
        request: GPURequest | None = None
        events: tuple[Event, ...] = ()
        while True:
            try:
                found = await self.request(key)
            except NotFound:
                if request is None:
                    raise
                yield Look(None, self._reads.now(), events)
                return
            except ClusterError as error:
                if request is None and isinstance(error, Forbidden | Unauthenticated | Refused):
                    raise
                yield Look(request, self._reads.now(), events, trouble=str(error))
            else:
                if (
                    request is not None and found.metadata.uid != request.metadata.uid
                ):  # another request with the same name
                    yield Look(None, self._reads.now(), events)
                    return
                request = found
                events = events if looks % EVENTS_EVERY else await self._events_of(request) or events
                yield Look(request, self._reads.now(), events)
                looks += 1
            await asyncio.sleep(LOOK_EVERY)

    async def _events_of(self, request: GPURequest) -> tuple[Event, ...]:
        """Empty also for a user who may not read Events."""
        return await self._reads.events(request.metadata.namespace, request.metadata.uid or "") or ()

    # -- tgp why -------------------------------------------------------------------------------------------------------

    async def enquire(self, key: ObjectKey) -> Enquiry:
        request = await self.request(self._with_namespace(key))
        meant = class_name(request, await self._reads.classes())
        name = meant if isinstance(meant, str) else ""
        records = await self._reads.requests()
        hold = await self._reads.hold()
        node_class = await self._class_of(name)
        waiting = request.status.phase in (None, "Pending") and not request.metadata.deletion_timestamp
        return Enquiry(
            request,
            self._reads.now(),
            name,
            node_class,
            str(hold) if hold is not None else "",
            hold is not None,
            None if records is None else tuple(holders_of(records, name)) if name else (),
            await self._gaps(node_class) if node_class is not None and waiting else (),
            await self.plan(request) if waiting else None,
        )

    async def _gaps(self, node_class: GPUNodeClass) -> tuple[Gap, ...]:
        """What the class is missing now, if the user may read its Secrets; else what its conditions say."""
        default = (await self._reads.chart_settings()).backend
        wanted = names(wanted_by(node_class, backend_of(node_class, default)))
        secrets, forbidden = await present_keys(wanted, self._secret_reader)
        if forbidden:
            return gaps_in_status(node_class)
        references = ClassReferences(node_class, secrets, self._reads.operator_namespace, default, frozenset())
        found = dict.fromkeys((*gaps_of(references), *missing_keys(references)))
        if not found:
            found = dict.fromkeys(gap for gap in gaps_in_status(node_class) if gap.reason not in ABOUT_SECRETS)
        return tuple(found)

    # -- tgp status ----------------------------------------------------------------------------------------------------

    async def standing(self, namespace: str) -> ClusterStatus:
        """Of every namespace, or only of the kubeconfig's own if the user may not list others."""
        only = ""
        records = [] if namespace else await self._reads.requests()
        if records is None:
            only = namespace = self.namespace
        if namespace:
            try:
                records = await self._reads.listed(ListTarget(typed(GPU_REQUEST, GPURequest), namespace))
            except NotFound as error:
                raise KindsMissing(NO_KINDS) from error
        requests = tuple(record.value for record in records or () if record.value is not None)
        names = {request.status.node_name for request in requests}
        pods = await self._pods_on({name for name in names if name})
        timelines = [timeline_of(each, self._reads.now()) for each in requests]
        rented = any(each.hourly_microusd is not None and not each.over for each in timelines)
        look_further = namespace and not only and not rented  # "no machine" is no answer about the whole bill
        every = await self._reads.requests() if look_further else None
        others = [each.value for each in every or () if each.value is not None and each.key.namespace != namespace]
        elsewhere = tuple(others) if every is not None else None
        return ClusterStatus(self._reads.now(), requests, pods, only, namespace, elsewhere)

    async def _pods_on(self, nodes: Collection[str]) -> Mapping[str, int] | None:
        """The number of pods per Node, without those of DaemonSets. None: the user may not list pods."""
        found = dict.fromkeys(nodes, 0)
        try:
            listed = await self._reads.listed(ListTarget(pods())) if nodes else []
        except Forbidden:
            return None
        for pod in listed:
            if pod.node in found and not pod.finished and not any(owner.kind == "DaemonSet" for owner in pod.owners):
                found[pod.node] += 1
        return found

    # -- tgp rent ------------------------------------------------------------------------------------------------------

    def fresh_name(self, stem: str) -> str:
        letters = (NAME_LETTERS[byte % len(NAME_LETTERS)] for byte in self._entropy.token(SUFFIX))
        return f"{_slug(stem)[:LONGEST_STEM].strip('-.') or 'gpu'}-{''.join(letters)}"

    async def plan(self, request: GPURequest) -> RentPlan:
        """Asks the providers whose API keys are set; for the others it reads the class's status."""
        classes, records, home = await self._reads.classes(), await self._reads.requests(), await self._reads.home()
        hold, required = hold_of(home), allowed_namespaces_required(home)
        labels = await self._labels(request.metadata.namespace)
        name = class_name(request, classes)
        verdict = class_for(request, classes, namespace_labels=labels or {}, allowed_namespaces_required=required)
        why = verdict if isinstance(verdict, Why) else None
        meant = name if isinstance(name, str) else ""
        node_class = next((record.value for record in classes if record.key.name == meant), None)
        chooses = node_class is not None and node_class.spec.allowed_namespaces is not None
        if why is not None and why.reason == "NamespaceNotAllowed" and labels is None and chooses:
            why = None  # unknown without the right to read the labels
        if meant == IMPLICIT and required:
            why = not_allowed(meant)
        state = ClusterState(
            request,
            meant,
            node_class,
            why,
            self._reads.now(),
            None if records is None else usage_of(_held(records, meant)),
            str(hold) if hold is not None else "",
            await self._reads.daemon_sets(),
            (await self._reads.chart_settings()).backend,
        )
        async with self._market(()) as market:
            return await planned(state, market)

    async def create(self, manifest: Mapping[str, Any]) -> None:
        """Refused if the name is taken; a lost answer is looked up, never sent again."""
        meta = manifest["metadata"]
        key, began = ObjectKey(meta["namespace"], meta["name"]), self._reads.now()
        try:
            await self._reads.cluster.create(GPU_REQUEST, manifest)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"request {key} already exists: see tgp why request/{key}, or choose another --name"
            ) from error
        except NotFound as error:
            raise NotFound(
                f"namespace {key.namespace} does not exist, or the tgp CRDs are not installed (tgp crds apply): {error}"
            ) from error
        except WriteUnknown as error:
            await self._look_up(key, began, error)

    async def delete(self, key: ObjectKey, uid: str) -> None:
        await self._reads.cluster.delete(GPU_REQUEST, key, uid=uid)

    async def gpu_nodes(self) -> NodesReport:
        return await gpu_nodes(self._reads)

    async def owned(self, name: str) -> OwnedMachineState:
        return await owned_machine(self._reads, name)

    async def _look_up(self, key: ObjectKey, began: datetime, error: WriteUnknown) -> None:
        try:
            found = await self.request(key)
        except ClusterError:
            raise WriteUnknown(
                f"whether request {key} was created is unknown ({error}): run `kubectl get gpurequest {key.name} "
                f"-n {key.namespace}` before you rent again"
            ) from error
        made = found.metadata.creation_timestamp
        if made is None or made < began - CLOCK_STEP:
            raise AlreadyExists(f"request {key} already existed: see tgp why request/{key}, or choose another --name")

    async def names(self, kind: str, namespace: str) -> list[tuple[str, str]]:
        """Of the live objects of a kind, each with what it is; for a shell that completes. Raises ClusterError."""
        if kind in ("request", "node"):
            return _names_in((await self.standing(namespace)).requests, kind)
        if kind == "pool":
            pools = await self._reads.listed(ListTarget(typed(GPU_NODE_POOL, GPUNodePool), namespace))
            return [(str(each.key), "") for each in pools]
        if kind == "pod":
            listed = await self._reads.listed(ListTarget(pods(), namespace))
            return [
                (str(each.key), f"on {each.node}" if each.node else "waits") for each in listed if not each.finished
            ]
        classes = await self._reads.listed(ListTarget(typed(GPU_NODE_CLASS, GPUNodeClass)))
        if kind == "class":
            return [(each.key.name, "") for each in classes]
        assert kind == "machine", kind
        return [
            (name, f"of class {each.key.name}")
            for each in classes
            if each.value is not None
            for name in sorted(machines_of(each.value))
        ]

    # -- shared reads -----------------------------------------------------------------------------------------

    async def request(self, key: ObjectKey) -> GPURequest:
        """Raises NotFound with the nearest names; ClusterError if only a newer release can read the request."""
        try:
            document = await self._reads.cluster.read(GPU_REQUEST, key)
        except NotFound as error:
            raise NotFound(await self._not_there(key)) from error
        request = decode(GPURequest, document)
        if isinstance(request, UnreadableObject):
            raise ClusterError(
                f"request {key} was written by a newer version: upgrade tgp, or run kubectl get gpurequest {key.name} "
                f"-n {key.namespace} -o yaml ({request.why})"
            )
        return request

    async def _not_there(self, key: ObjectKey) -> str:
        records = await self._reads.requests() or ()
        here = [record.key.name for record in records if record.key.namespace == key.namespace]
        elsewhere = [str(record.key) for record in records if record.key.name == key.name]
        near = elsewhere or get_close_matches(key.name, sorted(here), n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else "; see kubectl get gpurequests -A"
        return f"there is no request {key}{hint}"

    async def _labels(self, namespace: str) -> Mapping[str, str] | None:
        """Of a namespace; None: the user may not read it. Raises NotFound."""
        try:
            found = await self._reads.cluster.read(NAMESPACE, ObjectKey("", namespace))
        except Forbidden:
            return None
        except NotFound as error:
            raise NotFound(f"there is no namespace {namespace}") from error
        labels = found.get("metadata", {}).get("labels") or {}
        return {str(name): str(value) for name, value in labels.items()}

    async def _class_of(self, name: str) -> GPUNodeClass | None:
        if not name:
            return None
        try:
            found = decode(GPUNodeClass, await self._reads.cluster.read(GPU_NODE_CLASS, ObjectKey("", name)))
        except (NotFound, Forbidden):
            return None
        return None if isinstance(found, UnreadableObject) else found

    def _with_namespace(self, key: ObjectKey) -> ObjectKey:
        return key if key.namespace else ObjectKey(self.namespace, key.name)


def _names_in(requests: Iterable[GPURequest], kind: str) -> list[tuple[str, str]]:
    """Of requests, or of the Nodes of their machines."""
    named = [(f"{each.metadata.namespace}/{each.metadata.name}", each.status) for each in requests]
    if kind == "request":
        return [(name, status.phase or "") for name, status in named]
    return [(status.node_name, f"of request {name}") for name, status in named if status.node_name]


def _held(records: Iterable[KubeObject[GPURequest]], node_class: str) -> Iterable[Reservation]:
    for record in records:
        attempt = None if copied(record) else open_attempt(attempts_of(record))
        if attempt is not None and class_of(record) == node_class:
            yield reservation_of(plain_uid(record.uid_text), attempt)


def holders_of(records: Iterable[KubeObject[GPURequest]], node_class: str) -> Iterable[Holder]:
    for record in records:
        attempt = None if copied(record) else open_attempt(attempts_of(record))
        if attempt is not None and class_of(record) == node_class:
            phase = record.value.status.phase if record.value is not None else None
            yield Holder(record.key, phase or "?", reservation_of("", attempt).microusd)


def gaps_in_status(node_class: GPUNodeClass) -> tuple[Gap, ...]:
    """As the operator last wrote them."""
    conditions = (each for each in node_class.status.conditions if each.type in ("Ready", "CanBuy", "OffersFresh"))
    return tuple(Gap(each.reason, each.message) for each in conditions if each.status == "False")


def _slug(text: str) -> str:
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in text.lower())
