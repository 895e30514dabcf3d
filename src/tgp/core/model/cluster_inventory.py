"""All that is known of a cluster's machines at one moment: what its objects say, and what providers list."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.hold import Hold
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.presence import AccountProblem


class MissingCredential(Enum):
    """Why the user's API key for a provider is missing."""

    SECRET = auto()  # the Secret does not exist
    KEY = auto()  # the Secret does not have the key
    RIGHT = auto()  # the user may not read the Secret


@dataclass(frozen=True, slots=True)
class AccountInventory:
    """One account as its provider answered now: a complete list of this cluster's machines, or why there is none."""

    access: AccountAccess
    title: str  # the provider's display name
    lag: timedelta  # a launch may be missing from its lists for so long
    machines: tuple[Instance, ...] = ()
    account: str = ""  # under which identity
    trouble: AccountProblem | None = None  # not None: `machines` says nothing
    why: str = ""
    missing: MissingCredential | None = None  # None: the key is there, or none is needed
    wanted: bool = True  # a class buys there, or a machine was bought there; False: only a key was found
    owned: bool = False  # owned machines: they cost electricity, and not all can report the request they are on for

    @property
    def asked(self) -> bool:
        return self.trouble is None

    @property
    def name(self) -> str:
        """For users: the provider, and which key was used."""
        if self.owned and self.access.settings.machines:
            return f"{self.title} {', '.join(machine.name for machine in self.access.settings.machines)}"
        return f"{self.title} ({self.access.credentials})" if self.access.credentials else self.title


@dataclass(frozen=True, slots=True)
class ClusterInventory:
    cluster: str  # the cluster id: ten hex digits
    namespace: str  # the operator's
    now: datetime
    hold: Hold | None = None
    classes: tuple[KubeObject[GPUNodeClass], ...] = ()
    requests: tuple[
        KubeObject[GPURequest], ...
    ] = ()  # listed after the providers answered: a new machine has its request
    pools: tuple[KubeObject[GPUNodePool], ...] | None = ()  # None: the user may not list them
    nodes: tuple[Node, ...] = ()
    held_pods: tuple[Pod, ...] = ()  # that a budget's finalizer holds; none: the user may not list pods
    gated_pods: tuple[Pod, ...] = ()  # that wait behind the gate of budgets; the same
    suspended_jobs: tuple[ObjectKey, ...] = ()  # by budgets; none: the user may not list Jobs
    inspections: tuple[AccountInventory, ...] = ()  # none: no provider was called
    accounts: Mapping[str, CloudAccount] = field(default_factory=dict)  # that were ever ordered from, by id
    accounts_unread: bool = False  # the user may not read the table of accounts

    @property
    def unasked(self) -> tuple[AccountInventory, ...]:
        return tuple(one for one in self.inspections if not one.asked)
