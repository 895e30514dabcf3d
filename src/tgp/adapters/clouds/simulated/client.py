"""The only sender to this provider: prepare, send, read."""

from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.adapters.clouds.simulated import wire
from tgp.adapters.clouds.simulated.facts import FACTS
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, confirmed
from tgp.ports.http import Http

MAX_PAGES = 200  # of 100 machines; the most that is read


class SimulatedCloud:
    def __init__(self, http: Http) -> None:
        self._sender = Sender(http, FACTS.title)

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    async def offers(self) -> Listing:
        return wire.read_offers(await self._sender.look(wire.offers(), max_bytes=OFFERS_BYTES))

    async def launch(self, order: LaunchOrder) -> Instance:
        return wire.read_launch(await self._sender.change(wire.launch(await confirmed(order))), order)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._all() if machine.token == token)

    async def status(self, instance_id: str) -> Instance | None:
        return wire.read_machine(await self._sender.look(wire.machine(instance_id)), instance_id)

    async def terminate(self, instance_id: str) -> None:
        wire.read_terminate(await self._sender.change(wire.terminate(instance_id)))

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._all() if machine.token.startswith(prefix))

    async def check(self) -> KeyReport:
        return wire.read_account(await self._sender.look(wire.account()))

    async def identity(self) -> Account:
        return (await self.check()).account

    async def _all(self) -> list[Instance]:
        """Every machine of the account, once, by id; raises unless the last page was seen."""
        found: dict[str, Instance] = {}
        cursors = [""]
        for _ in range(MAX_PAGES):
            page, after = wire.read_machines(await self._sender.look(wire.machines(cursors[-1])))
            found.update({machine.id: machine for machine in page})
            if not after:
                return [found[each] for each in sorted(found)]
            if after in cursors:
                raise CannotTell(f"{FACTS.title} returned the same page token twice in its list of machines")
            cursors.append(after)
        raise CannotTell(f"{FACTS.title} lists machines on more than {MAX_PAGES} pages")
