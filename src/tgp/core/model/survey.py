"""All that a person can learn of a cluster's machines at one moment: what its objects say, and what providers list."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.hold import Hold
from tgp.core.model.instance import Instance
from tgp.core.model.node import Node
from tgp.core.model.presence import Trouble
from tgp.core.model.till import Till
from tgp.core.model.typed import Typed


class Lack(Enum):
    """What keeps a person from a key."""

    SECRET = auto()  # there is none of that name
    KEY = auto()  # the Secret does not have it
    RIGHT = auto()  # this person may not read it


@dataclass(frozen=True, slots=True)
class Inspection:
    """One till as its provider answered just now: a complete list of this cluster's machines, or why there is none."""

    till: Till
    title: str  # the provider as people write it
    lag: timedelta  # a launch may be missing from its lists for so long
    machines: tuple[Instance, ...] = ()
    account: str = ""  # under which identity
    trouble: Trouble | None = None  # not None: `machines` says nothing
    why: str = ""
    lack: Lack | None = None  # None: the key is there, or none is needed
    wanted: bool = True  # a class buys there, or a machine was bought there; False: only a key was found
    owned: bool = False  # machines that somebody owns: they cost electricity, and not all can say for whom they are on

    @property
    def asked(self) -> bool:
        return self.trouble is None

    @property
    def name(self) -> str:
        """For people: the provider, and which key was used."""
        if self.owned and self.till.settings.machines:
            return f"{self.title} {', '.join(machine.name for machine in self.till.settings.machines)}"
        return f"{self.title} ({self.till.credentials})" if self.till.credentials else self.title


@dataclass(frozen=True, slots=True)
class Survey:
    cluster: str  # the cluster id: ten hex digits
    namespace: str  # the operator's
    now: datetime
    hold: Hold | None = None
    classes: tuple[Typed[GPUNodeClass], ...] = ()
    requests: tuple[Typed[GPURequest], ...] = ()  # listed after the providers answered: a new machine has its request
    nodes: tuple[Node, ...] = ()
    inspections: tuple[Inspection, ...] = ()  # none: nobody was asked
    accounts: Mapping[str, CloudAccount] = field(default_factory=dict)  # that were ever ordered from, by id
    accounts_unread: bool = False  # this person may not read the table of them

    @property
    def unasked(self) -> tuple[Inspection, ...]:
        return tuple(one for one in self.inspections if not one.asked)
