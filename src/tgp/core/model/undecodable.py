"""What is known of a GPURequest that cannot be decoded: enough to terminate its machine, not enough to launch one."""

from typing import Any, get_type_hints

import msgspec

from tgp.api.common import Condition
from tgp.api.field_error import Invalid
from tgp.api.request import GPURequest, GPURequestSpec, GPURequestStatus
from tgp.api.values import span
from tgp.core.model.attempts import attempts_of
from tgp.core.model.kube_object import KubeObject

NEVER_WRITTEN = "Never"
_KINDS = get_type_hints(GPURequestStatus, include_extras=False)


def stand_in_for(record: KubeObject[GPURequest]) -> KubeObject[GPURequest]:
    """The record with an object in its place: its lifetime, and each part of its status, where they are readable.

    Such a request can only terminate: what it wants to launch is unknown.
    """
    written = record.status
    parts: dict[str, Any] = {
        name: part
        for name, key in zip(GPURequestStatus.__struct_fields__, GPURequestStatus.__struct_encode_fields__, strict=True)
        if name not in ("attempts", "conditions") and (part := _read(written.get(key), _KINDS[name])) is not None
    }
    rows = written.get("conditions")
    conditions = (_read(row, Condition) for row in (rows if isinstance(rows, list) else ()))
    status = GPURequestStatus(
        **parts, attempts=attempts_of(record), conditions=tuple(each for each in conditions if each is not None)
    )
    spec = GPURequestSpec(max_lifetime=_lifetime(record.lifetime_written), idle_timeout=NEVER_WRITTEN)
    return msgspec.structs.replace(record, value=GPURequest(spec=spec, status=status))


def _read(value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind) if value is not None else None
    except msgspec.ValidationError:
        return None


def _lifetime(written: str) -> str | None:
    """None: the value cannot be read, so the default lifetime holds."""
    try:
        span(written, "spec.maxLifetime")
    except Invalid:
        return None
    return written
