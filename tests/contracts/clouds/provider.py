"""What a provider tells the suite about itself: how to build it, its oddities, and which promises cannot apply to it.

One per file in `providers/`, under the name `PROVIDER`. Most fields have a default that fits an ordinary provider.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tgp.adapters.clouds.context import AdapterContext
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, LaunchOrder
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.simulator import Simulator

WORDS = "this machine cannot be ended in its present state"
SECOND_KEY = "second-key-of-another-tenant"

Slots: TypeAlias = Callable[[Any], Iterable[tuple[Any, Any]]]  # of a decoded answer: (container, key) of each value


def _settings(url: str) -> ProviderSettings:
    return ProviderSettings(endpoint=url)


def _as_it_is(order: LaunchOrder) -> LaunchOrder:
    return order


def _as_it_is(context: AdapterContext) -> AdapterContext:
    return context


def _user_data(machine: SimulatedMachine) -> bytes:
    return machine.user_data


def _whole(key: str) -> tuple[str, ...]:
    return (key,)


def _second_key(simulator: Simulator, _url: str) -> str:
    simulator.fleet.accounts.open(Tenant("account-of-another-tenant", "Another tenant"), SECOND_KEY)
    return SECOND_KEY


def _own_words(status: int) -> bytes:
    return json.dumps({"error": WORDS, "status": status}).encode()


def _none(_answer: Any) -> Iterable[tuple[Any, Any]]:
    return ()


@dataclass(frozen=True)
class Provider:
    facts: CloudFacts
    simulator: Callable[[Clock, int | str], Simulator]
    build: Callable[[AdapterContext], Cloud]
    exempt: Mapping[str, str] = field(default_factory=dict)  # the promise's name → why it cannot apply

    # What is known of it.
    judge: str = ""  # the independent client its simulator was tested with; empty: there is none
    tells_prices: bool = True  # False: they are from a dated table, which a class can override
    tells_creation: bool = True  # False: the creation time goes into a tag
    announces_ends: bool = False  # lists show when a machine is taken back

    # Oddities.
    settings: Callable[[str], ProviderSettings] = _settings  # of a class, given the URL that the simulator answers at
    furnish: Callable[[AdapterContext], AdapterContext] = _as_it_is  # adds what else this provider's context needs
    complete: Callable[[LaunchOrder], LaunchOrder] = _as_it_is  # adds what an order needs here: an image, a container
    keyed: bool = True  # False: there is no key at all
    other_key: Callable[[Simulator, str], str] = _second_key  # opens another account there, and gives back its key
    secret_parts: Callable[[str], tuple[str, ...]] = _whole  # of a key: what must never be seen
    names_account: bool = True  # False: it tells no account, and a digest of the key stands for it
    tells_balance: bool = True
    unique_names: bool = False  # True: a second machine of one name is refused
    page_rows: int = 0  # of one page of a list of machines; 0: lists have no pages
    page_parameter: str = ""  # of a query: how many rows a page may have
    offer_rows: int = 0  # of a page of what offers are made of, small enough for several; 0: there are no such pages
    unpaged: str = ""  # why nothing can come to have pages here; empty: a list without pages could
    end_page: Callable[[Any], None] | None = None  # makes a decoded page say that it is the last
    count_page: Callable[[Any], None] | None = None  # makes its total that of its own rows; None: pages have no total
    status_by: CloudVerb = CloudVerb.STATUS  # what `status` asks, as the simulator names it
    account_by: CloudVerb = CloudVerb.ACCOUNT  # what `identity` and `check` ask first
    askings: Mapping[CloudVerb, int] = field(default_factory=dict)  # calls that one question is, where it is not one
    own_tags: tuple[str, ...] = ()  # tag keys the adapter writes itself, as a class would spell them
    token_fields: int = 1  # how many fields of an order carry the token: no more and no fewer
    own_words: Callable[[int], bytes] = (
        _own_words  # a refusal with that status in its own envelope, about nothing known
    )
    user_data_of: Callable[[SimulatedMachine], bytes] = _user_data  # where the simulator keeps it

    off_sockets: str = ""  # why its adapter cannot be tried on a loopback port; empty: it can

    # Where things stand in a decoded answer, for promises that spoil them.
    price_slots: Slots = _none  # every price in an answer to OFFERS
    gpu_slots: Slots = _none  # every GPU name in an answer to OFFERS
    state_slots: Slots = _none  # the state of every machine in an answer to `status_by` (and LIST)
    name_slots: Slots = _none  # the token field of every machine in an answer to LIST

    @property
    def name(self) -> str:
        return self.facts.provider
