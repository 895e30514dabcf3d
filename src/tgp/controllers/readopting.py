"""Writes down again a machine whose record was lost with its request's status. Nothing is bought here."""

from collections.abc import Callable

from msgspec.structs import replace

from tgp.controllers.accounts import Accounts
from tgp.controllers.memory import Memory
from tgp.controllers.request_sight import Lookout
from tgp.controllers.request_story import Storyteller
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import provider_of
from tgp.core.model.facts import MachineReadopted, offer_words, subject_of
from tgp.core.model.presence import Found
from tgp.core.model.till import Till
from tgp.core.rules.costs import hourly_of
from tgp.core.rules.node_names import node_name_for
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import Readopt, Rest
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy
from tgp.ports.journal import Journal


class Readopting:
    def __init__(
        self,
        lookout: Lookout,
        *,
        till: Callable[[str], Till | None],
        accounts: Accounts,
        rosters: Rosters,
        story: Storyteller,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._lookout = lookout
        self._till = till  # by its name, whether or not a class still names it
        self._accounts = accounts
        self._rosters = rosters
        self._story = story
        self._journal = journal
        self._clock = clock

    async def readopt(self, sight: Sight, step: Readopt, memory: Memory) -> None:
        """One conditional write. From then on it counts by its record, and its life goes on where it stands."""
        record, till = sight.record, self._till(step.till)
        if till is None:
            raise ClusterBusy(f"nobody lists {step.till} any more")
        account = await self._accounts.ensure(till, self._rosters.account(till.name), step.attempt.token)
        attempt = replace(step.attempt, account=account.id)
        parts = {
            "nodeClass": self._lookout.class_at(record, till.name) or None,
            "nodeName": node_name_for(record.key, attempt.token, account),
            "readyAt": None,
            "idleSince": None,
        }
        self._rosters.watch(attempt.token, till.name, account.identities, not_before=self._clock.boottime())
        known = replace(
            sight, attempts=(*sight.attempts, attempt), unrecorded=None, presence=Found(step.instance), parts=parts
        )
        await self._story.tell(known, Rest("", ""), memory)
        memory.asked, memory.ask_again_at, memory.trouble, memory.told_failing = 0, None, "", False
        memory.progress = None
        self._journal.note(
            MachineReadopted(
                subject_of(record),
                provider_of(attempt),
                offer_words(attempt.offer),
                hourly_of(attempt),
                step.instance.id,
                attempt.number,
            )
        )
