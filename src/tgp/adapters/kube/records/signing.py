"""CertificateSigningRequests."""

from collections.abc import Mapping

import msgspec

from tgp.adapters.kube.records.meta import MetaWire, ObjectMetaReader, PartialObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.signing import APPROVED, DENIED, FAILED, CsrAnswer, SigningRequest

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
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: SigningWire, known: Mapping[ObjectKey, SigningRequest]) -> SigningRequest:
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

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, SigningRequest]) -> SigningRequest:
        return SigningRequest(**self._plates.bare(found, known))


def _answer(conditions: tuple[_ConditionWire, ...]) -> CsrAnswer | None:
    """Whatever its status: to the API server a verdict of `False` is as final, and cannot be removed."""
    said = {condition.type: condition.reason or "" for condition in conditions}
    return next((CsrAnswer(kind, said[kind]) for kind in _FINAL if kind in said), None)
