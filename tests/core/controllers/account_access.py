"""A provider of three lines, a few requests, and the poller: all on a clock that only a test moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tgp.adapters.kube.store import Store
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.consistency import Consistency
from tgp.controllers.instances.orphan_collector import OrphanCollector
from tgp.controllers.instances.poller import InstancePoller
from tgp.controllers.requests.indexes import INDEXES
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.inventory.orphan_evidence import ServerState
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.attempts import UID_ANNOTATION
from tgp.core.model.cloud_account import CloudAccount, account_of
from tgp.core.model.cloud_errors import CannotTell, CloudError
from tgp.core.model.facts import Fact
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.record import pack_uid
from tgp.core.model.secret import Secret
from tgp.core.model.token import token_for
from tgp.core.model.workload import Metadata
from tgp.ports.cloud import Account
from tgp.ports.cluster import Forbidden

CLUSTER = "0123456789"
START = datetime(2026, 1, 5, tzinfo=UTC)
LAG = timedelta(seconds=60)
VULTR = AccountAccess("vultr", "keys", "VULTR")
ACME = account_of(VULTR, "acme")
FACTS = CloudFacts("vultr", "Vultr", (), "https://there", LAG)


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def a_token(number: int, attempt: int = 1, cluster: str = CLUSTER) -> str:
    return token_for(cluster, uid(number), attempt)


def a_machine(number: int, attempt: int = 1, **rest: Any) -> Instance:
    token = rest.pop("token", a_token(number, attempt))
    name = rest.pop("id", f"i-{number}-{attempt}")
    return Instance(name, token, rest.pop("state", InstanceState.RUNNING), **rest)


def an_attempt(number: int, attempt: int = 1, **rest: Any) -> Attempt:
    offer = {"provider": "vultr", "instanceType": "a100"}
    row = {"number": attempt, "token": a_token(number, attempt), "offer": offer, "account": ACME.id, **rest}
    return msgspec.convert(row, Attempt)


def a_record(number: int, *attempts: Attempt, copy: bool = False, unreadable: bool = False) -> KubeObject[GPURequest]:
    status = {"attempts": [msgspec.to_builtins(attempt) for attempt in attempts]}
    request = msgspec.convert({"spec": {"gpuType": "A100"}, "status": status}, GPURequest)
    return KubeObject(
        key=ObjectKey("team", f"train-{number}"),
        uid=pack_uid(uid(number)),
        resource_version=1,
        annotations={UID_ANNOTATION: uid(99) if copy else uid(number)},
        value=None if unreadable else request,
        status_document=msgspec.json.encode(status),
    )


def a_class(*providers: dict[str, Any], version: int = 1) -> KubeObject[GPUNodeClass]:
    rows = providers or ({"name": "vultr", "credentialsRef": {"name": "keys", "key": "VULTR"}},)
    document = {"metadata": {"name": "cheap"}, "spec": {"providers": list(rows)}}
    return KubeObject(
        key=ObjectKey("", "cheap"),
        uid=pack_uid(uid(90)),
        resource_version=version,
        value=msgspec.convert(document, GPUNodeClass),
    )


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def boottime(self) -> float:
        return self.seconds


class EvenLuck:
    def token(self, size: int) -> bytes:
        return bytes(size)

    def jitter(self) -> float:
        return 0.5


class Memory(list[Fact]):
    """A journal."""

    def note(self, fact: Fact) -> None:
        self.append(fact)


class Provider:
    """Lists and ends what a test puts there."""

    def __init__(self, *machines: Instance) -> None:
        self.facts = FACTS
        self.machines = {machine.id: machine for machine in machines}
        self.hidden: set[str] = set()  # ids that lists leave out
        self.account = "acme"
        self.error: CloudError | None = None  # of every question
        self.unlistable: CloudError | None = None
        self.unending: CloudError | bool | None = None  # False: an end is agreed to, and does not come
        self.asked: list[str] = []
        self.ended: list[str] = []

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        self._hear("owned", self.unlistable)
        machines = (one for name, one in sorted(self.machines.items()) if name not in self.hidden)
        return tuple(one for one in machines if one.token.startswith(prefix))

    async def status(self, instance_id: str) -> Instance | None:
        self._hear("status")
        if "/" in instance_id:
            raise CannotTell("Vultr cannot have an id such as that")
        return self.machines.get(instance_id)

    async def identity(self) -> Account:
        self._hear("identity")
        return Account(self.account)

    async def terminate(self, instance_id: str) -> None:
        self.ended.append(instance_id)
        if isinstance(self.unending, CloudError):
            raise self.unending
        if self.unending is None:
            self.machines.pop(instance_id, None)

    def _hear(self, verb: str, error: CloudError | None = None) -> None:
        self.asked.append(verb)
        if self.error or error:
            raise self.error or error  # type: ignore[misc]  # one of them is there


class HeldSecrets:
    def __init__(self) -> None:
        self.secrets: dict[str, Mapping[str, Secret]] = {"keys": {"VULTR": Secret("k1")}}
        self.forbidden: set[str] = set()

    async def read(self, name: str) -> Mapping[str, Secret] | None:
        if name in self.forbidden:
            raise Forbidden(f"get Secret {name}")
        return self.secrets.get(name)


@dataclass
class OneProvider:
    """The `Clouds` port."""

    provider: Provider

    def facts(self, _provider: str) -> CloudFacts:
        return self.provider.facts

    def open(self, *_asked_with: object) -> Any:
        return self.provider


@dataclass
class AccountSetup:
    provider: Provider
    access: AccountAccess = VULTR
    observing: bool = False
    clock: HandClock = field(default_factory=HandClock)
    secret_reader: HeldSecrets = field(default_factory=HeldSecrets)
    journal: Memory = field(default_factory=Memory)
    announced: list[str] = field(default_factory=list)
    refreshes: int = 0
    cluster: str = CLUSTER
    server_state: ServerState | None = None  # None: it cannot be asked
    trusted_at: datetime | None = None  # a person's word that the provider is right
    bystander: bool = True  # is there a request besides, of which no machine is known?

    def __post_init__(self) -> None:
        self.classes: Store[KubeObject[GPUNodeClass]] = Store(GPU_NODE_CLASS)
        self.requests: Store[KubeObject[GPURequest]] = Store(GPU_REQUEST, INDEXES)
        self.late: list[KubeObject[GPURequest]] = []  # what only a fresh list of requests shows
        self.unserved: set[ObjectKey] = set()  # requests whose records alone are no proof
        self.hidden: set[ObjectKey] = set()  # requests that are there, whatever lists say
        self.asked_for: list[ObjectKey] = []  # requests, by their names
        self.instance_cache = InstanceCache(self.clock.boottime)
        self.config_map = MemoryConfigMap(account_at(self.access))
        self.accounts = accounts_on(self.config_map, self.requests, self.clock, self.journal)
        self.nodes: Store[Node] = Store(NODE)
        self.consistency = Consistency(
            self.instance_cache,
            requests=self.requests,
            accounts=self.accounts,
            nodes=self.nodes,
            clock=self.clock,
            trusted_at=lambda _provider: self.trusted_at,
            accuses=lambda record, _attempt: record.key not in self.unserved,
        )
        self.collector = OrphanCollector(
            self.instance_cache,
            self.requests,
            classes=self.classes,
            nodes=self.nodes,
            evidence=self,
            gate=LeaderGuard(None, observing=self.observing),
            journal=self.journal,
            clock=self.clock,
        )
        self.poller = InstancePoller(
            self.instance_cache,
            consistency=self.consistency,
            collector=self.collector,
            classes=self.classes,
            accounts=self.accounts,
            clouds=OneProvider(self.provider),
            secret_reader=self.secret_reader,
            clock=self.clock,
            entropy=EvenLuck(),
            cluster=lambda: self.cluster,
            announce=self.announced.append,
        )
        self.poller.of_account(None, Metadata(key=ObjectKey("", account_at(self.access).id)))  # the access is known
        if self.bystander:
            self.hold(a_record(97))

    async def exists(self, key: ObjectKey, uid: str) -> bool:  # noqa: ARG002 - the name suffices here
        self.asked_for.append(key)
        return key in self.hidden

    async def server(self) -> ServerState | None:
        return self.server_state

    async def refresh(self) -> None:
        self.refreshes += 1
        for record in self.late:
            self.requests.put(record)

    def hold_class(self, record: KubeObject[GPUNodeClass]) -> None:
        self.classes.put(record)

    def hold(self, *records: KubeObject[GPURequest]) -> None:
        for record in records:
            self.requests.put(record)

    async def turn(self, after: float = 0.0) -> float | None:
        """One reconcile of the account, some seconds later; the pause after it."""
        return await self.turn_at(ObjectKey("", self.access.name), after)

    async def turn_at(self, access: ObjectKey, after: float = 0.0) -> float | None:
        self.clock.seconds += after
        again = await self.poller.reconcile(access)
        return None if again is None else round((again - self.clock.now()).total_seconds(), 3)

    async def turns(self, count: int, every: float = 15.0) -> None:
        for _ in range(count):
            await self.turn(after=every)

    def presence(self, number: int, attempt: int = 1, account: str = "acme", **rest: Any) -> Any:
        identities = (account,) if account else ()
        self.instance_cache.watch(a_token(number, attempt), self.access.name, identities)
        return self.instance_cache.presence(a_token(number, attempt), self.access.name, identities, **rest)

    def facts(self, kind: type) -> list[Any]:
        return [fact for fact in self.journal if isinstance(fact, kind)]


def account_at(access: AccountAccess) -> CloudAccount:
    """Of an owned machine: the first request has it."""
    return ACME if access == VULTR else msgspec.structs.replace(account_of(access, ""), holder=a_token(1))


def at_access(attempt: Attempt, access: AccountAccess) -> Attempt:
    assert attempt.offer is not None
    offer = msgspec.structs.replace(attempt.offer, provider=access.provider)
    return msgspec.structs.replace(attempt, offer=offer, account=account_at(access).id)


def a_secret(name: str) -> Metadata:
    return Metadata(key=ObjectKey("tgp-system", name))


def ended(machine: Instance, state: InstanceState) -> Instance:
    return replace(machine, state=state)
