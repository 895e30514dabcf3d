"""The result of a check of owned machines, for display. Pure."""

from dataclasses import dataclass

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.webhook.facts import ACCOUNT
from tgp.adapters.clouds.webhook.power import Power, Reading
from tgp.api.common import OWNED_PROVIDER
from tgp.api.owned_machine import PowerMachine
from tgp.core.model import gpus
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.signature import LEAST_KEY_BYTES, NotASecret, keys_of
from tgp.ports.cloud import KeyReport, Right


@dataclass(frozen=True, slots=True)
class ReceiverCheck:
    machine: PowerMachine
    obstacle: str  # why a power call would not be sent; empty: it would
    seen: Reading | CloudError | None  # None: no status endpoint


def report(checks: list[ReceiverCheck], context: AdapterContext) -> KeyReport:
    rights = tuple(right for check in checks for right in (_switching(check), _asking(check)))
    notes = tuple(note for check in checks for note in _notes(check.machine, context))
    nothing = () if checks else ("the class names no machine: settings.machines is empty",)
    return KeyReport(ACCOUNT, rights, can_buy=any(not check.obstacle for check in checks), notes=(*nothing, *notes))


def _switching(check: ReceiverCheck) -> Right:
    name = f"switch {check.machine.name}"
    if check.obstacle:
        return Right(name, held=False, note=check.obstacle)
    return Right(name, held=None, note="not tested: the test would switch the machine")


def _asking(check: ReceiverCheck) -> Right:
    name = f"ask {check.machine.name}"
    match check.seen:
        case None:
            return Right(name, held=None, note="no statusEndpoint: the Node shows whether the machine is on")
        case KeyRefused() as error:
            return Right(name, held=False, note=str(error))
        case CloudError() as error:
            return Right(name, held=None, note=str(error))
        case Reading(power=Power.UNKNOWN, said=said):
            return Right(name, held=True, note=f"the status is {said!r}, which tgp does not know")
        case Reading(power=power):
            return Right(name, held=True, note=f"the machine is {power}")


def _notes(machine: PowerMachine, context: AdapterContext) -> list[str]:
    notes: list[str] = []
    if machine.gpu_type and gpus.find(machine.gpu_type, provider=OWNED_PROVIDER) is None:
        nearest = ", ".join(gpus.nearest(machine.gpu_type)) or "nothing"
        notes.append(f"{machine.name}: unknown GPU model {machine.gpu_type}; nearest: {nearest}")
    if machine.price_per_hour is None and (machine.watts is None or not context.settings.electricity_price_per_kwh):
        notes.append(f"{machine.name}: no price is set, so the smallest sufficient machine is used first")
    if machine.headers_secret_ref is not None and _is_plain(machine):
        notes.append(f"{machine.name}: its headers are sent unencrypted, by http")
    if machine.signing_secret_ref is not None and _is_weak(machine, context):
        notes.append(f"{machine.name}: its signing secret is shorter than {LEAST_KEY_BYTES} bytes")
    return notes


def _is_plain(machine: PowerMachine) -> bool:
    urls = (machine.scale_up_endpoint, machine.scale_down_endpoint, machine.status_endpoint or "")
    return any(url.lower().startswith("http://") for url in urls)


def _is_weak(machine: PowerMachine, context: AdapterContext) -> bool:
    ref = machine.signing_secret_ref
    secret = context.secrets.get((ref.name, ref.key)) if ref is not None else None
    if not secret:
        return False
    try:
        return keys_of(secret).weakest_bits < LEAST_KEY_BYTES * 8
    except NotASecret:
        return False  # reported where it matters
