"""CertificateSigningRequests."""

from collections.abc import Mapping

import msgspec

from tgp.adapters.kube.records.meta import MetaWire, Plates, Salvage
from tgp.core.model.key import Key
from tgp.core.model.signing import APPROVED, DENIED, FAILED, Answer, SigningRequest

_FINAL = (DENIED, FAILED, APPROVED)  # a request that was approved and then failed has failed


class _SpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    request: bytes = b""  # base64 on the wire
    signer_name: str = ""
    usages: tuple[str, ...] | None = None
    username: str = ""
    groups: tuple[str, ...] | None = None


class _ConditionWire(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    reason: str | None = None


class _StatusWire(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_ConditionWire, ...] | None = None


class SigningWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class SigningReader:
    wire = SigningWire

    def __init__(self) -> None:
        self._plates = Plates()
        self.pools = self._plates.pools()

    def read(self, wire: SigningWire, known: Mapping[Key, SigningRequest]) -> SigningRequest:
        spec = wire.spec
        return SigningRequest(
            **self._plates.fields(wire.metadata, known),
            username=spec.username,
            groups=spec.groups or (),
            signer=spec.signer_name,
            usages=spec.usages or (),
            document=spec.request,
            answer=_answer(wire.status.conditions or ()),
        )

    def bare(self, found: Salvage, known: Mapping[Key, SigningRequest]) -> SigningRequest:
        return SigningRequest(**self._plates.bare(found, known))


def _answer(conditions: tuple[_ConditionWire, ...]) -> Answer | None:
    """Whatever its status: a verdict of `False` is as final to the API server, which lets nobody take it away."""
    said = {condition.type: condition.reason or "" for condition in conditions}
    return next((Answer(kind, said[kind]) for kind in _FINAL if kind in said), None)
