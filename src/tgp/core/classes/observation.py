"""All that the conditions of one GPUNodeClass are computed from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.classes.machines_status import ClassMachines, boot_times, boots_seen
from tgp.core.classes.market_status import ProviderStanding, known_enough
from tgp.core.classes.nodeclass import ClassPreflight, ClassReferences
from tgp.core.inventory.orphans import Stuck
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.sources import sources_of
from tgp.core.model.conditions import ConditionUpdate, condition_in, generation_in
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.offer import BootMode
from tgp.core.model.price_book import PriceBook
from tgp.core.model.source_status import SourceStatus


@dataclass(frozen=True)
class ClassObservation:
    """What was seen of a class at one moment; the properties are computed from it once."""

    references: ClassReferences  # the class itself, and what exists of the things that it refers to
    now: datetime
    generation: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)  # as it is stored
    # the market
    book: PriceBook = field(default_factory=PriceBook)
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    source_statuses: Mapping[str, SourceStatus] = field(default_factory=dict)  # by source; absent: not polled yet
    boots: Mapping[str, Collection[BootMode]] = field(default_factory=dict)  # of every provider that sells known GPUs
    # its machines
    machines: ClassMachines = field(default_factory=ClassMachines)
    preflight: ClassPreflight = field(default_factory=ClassPreflight)
    preparing: str = ""  # progress of the images that its machines wait for; empty: they wait for none
    refused_machines: Mapping[str, str] = field(default_factory=dict)  # you own and it may not use, with the cause
    outdated_kinds: str = ""  # why the CRDs are too old to buy anything; empty: they are not
    # the accounts that it buys from
    halted: str = ""  # why the orphan collector stopped at one of them; empty: it did not
    stuck: tuple[Stuck, ...] = ()  # machines that no request owns and whose termination fails

    @property
    def node_class(self) -> GPUNodeClass:
        return self.references.node_class

    @cached_property
    def ranking(self) -> Ranking:
        return rank(self.book, query_for_class(self.node_class, self.cooldowns), self.now)

    @cached_property
    def standings(self) -> tuple[ProviderStanding, ...]:
        fitting = self.ranking.by_source
        return tuple(
            ProviderStanding(
                name,
                source,
                self.source_statuses.get(source.name),
                self.book.state(source.name),
                fitting.get(source.name, 0),
            )
            for name, source in sources_of(self.node_class).items()
        )

    @property
    def providers(self) -> list[str]:
        return [standing.name for standing in self.standings]

    @cached_property
    def market_known(self) -> bool:
        """Else the conditions that an earlier process stored about the market stay."""
        return known_enough(self.standings, self.status, self.stored("OffersFresh"), self.now)

    @cached_property
    def boot_seen(self) -> dict[str, str]:
        """By provider: when a machine of it was first seen to join."""
        return boots_seen(self.machines, self.status, self.providers)

    @cached_property
    def boot_times(self) -> dict[str, str]:
        """By provider: how long its last machine took to be Ready."""
        return boot_times(self.machines, self.status, self.providers)

    def stored(self, name: str) -> ConditionUpdate | None:
        return condition_in(self.status, name)

    def stored_for_this_spec(self, name: str) -> bool:
        """Was the stored condition computed from the current spec?"""
        return generation_in(self.status, name) == self.generation
