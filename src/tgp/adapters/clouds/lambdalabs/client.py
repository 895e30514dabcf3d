"""The only sender to Lambda. `wire` and the modules beside it have the calls and answers."""

from datetime import datetime

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.lambdalabs import wire
from tgp.adapters.clouds.lambdalabs.check import report
from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.lambdalabs.listing import read_types
from tgp.adapters.clouds.lambdalabs.machines import read_machines
from tgp.adapters.clouds.parse import ID
from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, confirmed


class LambdaCloud:
    """Each verb is one call: Lambda allows one per second."""

    def __init__(self, context: AdapterContext) -> None:
        self._sender = Sender(context.http(FACTS), FACTS.title)
        self._clock = context.clock
        self._ssh_key_name = context.settings.ssh_key_name
        self._account = context.account
        self._key = context.key

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    async def offers(self) -> Listing:
        reply = await self._sender.look(wire.TYPES, max_bytes=OFFERS_BYTES)
        return read_types(wire.read_data(reply, "offers", self._key))

    async def launch(self, order: LaunchOrder) -> Instance:
        now = self._now()
        call = wire.launch(await confirmed(order), self._ssh_key_name, now)
        return wire.read_launch(await self._sender.change(call), order, now, self._key, order.user_data)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._machines("find") if machine.token == token)

    async def status(self, instance_id: str) -> Instance | None:
        _check_id(instance_id)
        return wire.read_status(await self._sender.look(wire.machine(instance_id)), instance_id, self._key)

    async def terminate(self, instance_id: str) -> None:
        _check_id(instance_id)
        wire.read_terminate(await self._sender.change(wire.terminate(instance_id)), instance_id, self._key)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._machines("owned") if machine.token.startswith(prefix))

    async def check(self) -> KeyReport:
        keys = wire.read_data(await self._sender.look(wire.SSH_KEYS), "check", self._key)
        return report(keys, self._ssh_key_name, self._account)

    async def identity(self) -> Account:
        """Lambda has no account id, so the key's fingerprint is used."""
        return self._account

    async def _machines(self, verb: str) -> tuple[Instance, ...]:
        return read_machines(wire.read_data(await self._sender.look(wire.MACHINES), verb, self._key))

    def _now(self) -> datetime:
        return self._clock.now().replace(microsecond=0)


def _check_id(instance_id: str) -> None:
    """Text that is not an id is not sent."""
    if not ID.match(instance_id):
        raise CannotTell(f"{FACTS.title} cannot have an id such as {instance_id[:64]!r}")
