"""The only sender to Lambda. What it asks and how it reads the answers stand in `wire` and beside it."""

from datetime import datetime

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.lambdalabs import wire
from tgp.adapters.clouds.lambdalabs.check import report
from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.lambdalabs.listing import read_types
from tgp.adapters.clouds.lambdalabs.machines import read_machines
from tgp.adapters.clouds.reading import ID
from tgp.adapters.clouds.sending import OFFERS_BYTES, Sender
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance
from tgp.ports.cloud import Account, CloudFacts, KeyReport, LaunchOrder, Listing, confirmed


class LambdaCloud:
    """Each verb is one call: Lambda takes one a second."""

    def __init__(self, door: Door) -> None:
        self._sender = Sender(door.http(FACTS), FACTS.title)
        self._clock = door.clock
        self._ssh_key_name = door.settings.ssh_key_name
        self._account = door.account
        self._key = door.key

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
        """Lambda names no account, so the key stands for it."""
        return self._account

    async def _machines(self, verb: str) -> tuple[Instance, ...]:
        return read_machines(wire.read_data(await self._sender.look(wire.MACHINES), verb, self._key))

    def _now(self) -> datetime:
        return self._clock.now().replace(microsecond=0)


def _check_id(instance_id: str) -> None:
    """What is no id is not asked about: a machine cannot be called so."""
    if not ID.match(instance_id):
        raise CannotTell(f"{FACTS.title} has no ids such as {instance_id[:64]!r}")
