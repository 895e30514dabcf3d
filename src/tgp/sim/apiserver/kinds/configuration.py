"""Secrets and ConfigMaps."""

import base64
import re
from typing import Any

from tgp.sim.apiserver.base64_values import check_base64
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, same
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.problems import forbidden_field, invalid_value, required, too_long
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause

KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
KEY_SAYS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
MAX_BYTES = 1 << 20  # of all values together
MAX_KEY = 253
FROZEN = "field is immutable when `immutable` is set"
REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def key_problems(field: str, values: Any) -> list[Cause]:
    found: list[Cause] = []
    for key in values or {}:
        if len(key) > MAX_KEY:
            found.append(invalid_value(f"{field}[{key}]", key, f"must be no more than {MAX_KEY} bytes"))
        if not KEY.match(key):
            found.append(invalid_value(f"{field}[{key}]", key, KEY_SAYS))
    return found


def frozen_problems(old: Json, new: Json, fields: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    found = []
    if not new.get("immutable"):
        found.append(forbidden_field("immutable", FROZEN))
    return found + [forbidden_field(name, FROZEN) for name in fields if not same(old.get(name), new.get(name))]


class SecretStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        check_base64(obj.get("data"))
        plain = obj.pop("stringData", None)
        if plain:
            data = dict(obj.get("data") or {})
            data.update({key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()})
            obj["data"] = data
        obj.setdefault("type", "Opaque")

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        found = key_problems("data", obj.get("data"))
        if sum(map(len, check_base64(obj.get("data")))) > MAX_BYTES:
            found.append(too_long("data", MAX_BYTES))
        for key in REQUIRED_KEYS.get(obj.get("type", ""), ()):
            if key not in (obj.get("data") or {}):
                found.append(required(f"data[{key}]"))
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        found = (
            [] if obj.get("type") == old.get("type") else [invalid_value("type", obj.get("type"), "field is immutable")]
        )
        return found + frozen_problems(old, obj, ("data",)) + self.problems(write, obj)


class ConfigMapStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        check_base64(obj.get("binaryData"))

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        found = key_problems("data", obj.get("data")) + key_problems("binaryData", obj.get("binaryData"))
        size = sum(len(str(value).encode()) for value in (obj.get("data") or {}).values())
        size += sum(map(len, check_base64(obj.get("binaryData"))))
        if size > MAX_BYTES:
            found.append(too_long("", MAX_BYTES))
        both = [key for key in obj.get("binaryData") or {} if key in (obj.get("data") or {})]
        found += [invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData") for key in both]
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        return frozen_problems(old, obj, ("data", "binaryData")) + self.problems(write, obj)
