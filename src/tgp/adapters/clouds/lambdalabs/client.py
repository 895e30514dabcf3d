"""The only sender to Lambda. `wire` and the modules beside it have the calls and answers."""

from datetime import datetime
from typing import Any

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.lambdalabs import wire
from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.lambdalabs.listing import read_types
from tgp.adapters.clouds.lambdalabs.machines import read_machines
from tgp.adapters.clouds.parse import ID, shown
from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, Right, confirmed

MOST_KEYS = 10_000
NAMES_SHOWN = 5
LOGIN = "SSH key of a launch"
SET_IT = f"set settings.sshKeyName of the provider {FACTS.provider} in a class"


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


def report(ssh_keys: Any, wanted: str | None, account: Account) -> KeyReport:
    """From the answer to `GET /ssh-keys`: one call shows whether the key works and whether a launch is possible."""
    if not isinstance(ssh_keys, list) or len(ssh_keys) > MOST_KEYS:
        raise CannotTell(f"{FACTS.title} answered without a list of SSH keys")
    names = [row["name"] for row in ssh_keys if isinstance(row, dict) and isinstance(row.get("name"), str)]
    login = _login(names, wanted)
    return KeyReport(
        account,
        rights=(
            Right("see machines", True),
            Right("launch and terminate", None, "API keys of Lambda have no per-action permissions"),
            login,
        ),
        notes=(login.note,) if login.note else (),
    )


def _login(names: list[str], wanted: str | None) -> Right:
    """Without an SSH key of the account Lambda launches nothing. Not held: every order would fail."""
    if wanted is not None and wanted in names:
        return Right(LOGIN, True)
    if wanted is not None:
        return Right(LOGIN, False, f"the account has no SSH key named {shown(wanted)}")
    if not names:
        return Right(LOGIN, False, f"the account has no SSH key: add one, and {SET_IT}")
    known = ", ".join(shown(name) for name in sorted(names)[:NAMES_SHOWN])
    return Right(LOGIN, None, f"{SET_IT}; the account has {known}")
