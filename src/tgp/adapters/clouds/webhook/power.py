"""Parses the answer of a status endpoint: power state and order.

Understood are `{"state": "on"}` with on, off, starting or stopping, `{"on": true}`, a bare word or boolean, and
`{"PowerState": "On"}` of Redfish (DMTF, ComputerSystem). `"token"` beside it names the order the machine was switched
on for. Other words are *unknown*; an answer in another format proves nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from tgp.adapters.clouds.parse import ID, shown
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Reply

LONGEST_WORD = 64  # characters of a bare answer; more is a page
LONGEST_TOKEN = 64  # ours have 52; with the longest name of a machine it is still an id
_PLAIN = re.compile(rb"[A-Za-z][A-Za-z _-]*\Z")  # neither half an object nor an HTML page


class Power(StrEnum):
    ON = "on"
    OFF = "off"
    STARTING = "starting"
    STOPPING = "stopping"
    UNKNOWN = "unknown"


WORDS: Mapping[str, Power] = {
    "on": Power.ON,
    "true": Power.ON,
    "off": Power.OFF,
    "false": Power.OFF,
    "starting": Power.STARTING,
    "stopping": Power.STOPPING,
    "poweringon": Power.STARTING,  # Redfish
    "poweringoff": Power.STOPPING,
}
STATES: Mapping[Power, InstanceState] = {
    Power.ON: InstanceState.RUNNING,
    Power.STARTING: InstanceState.STARTING,
    Power.STOPPING: InstanceState.ENDING,
    Power.UNKNOWN: InstanceState.UNKNOWN,
}


class NotAStatus(ValueError):
    """A whole answer that is not a machine's status."""


@dataclass(frozen=True, slots=True)
class Reading:
    power: Power
    said: str = ""  # as sent by the endpoint
    token: str | None = None  # empty: no order; None: not reported


def read_status(reply: Reply) -> Reading:
    """From a good answer. Raises NotAStatus."""
    try:
        body = msgspec.json.decode(reply.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _bare(_word(reply))
    except RecursionError:  # brackets in brackets in brackets
        raise NotAStatus("the answer is nested too deeply") from None
    if isinstance(body, dict):
        return _object(body)
    return _bare(body)


def _object(body: dict[str, Any]) -> Reading:
    told = [body[name] for name in ("state", "PowerState", "on") if body.get(name) is not None]
    if not told:
        raise NotAStatus("the answer has no `state`")
    readings = [_bare(value) for value in told]
    powers = dict.fromkeys(reading.power for reading in readings)
    power = readings[0].power if len(powers) == 1 else Power.UNKNOWN  # contradictory
    return Reading(power, readings[0].said, _token(body))


def _bare(value: Any) -> Reading:
    if isinstance(value, bool):
        return Reading(Power.ON if value else Power.OFF, "on" if value else "off")
    if not isinstance(value, str) or not 0 < len(value.strip()) <= LONGEST_WORD:
        raise NotAStatus("the answer is neither a word nor an object with a `state`")
    word = value.strip()
    return Reading(WORDS.get(word.lower(), Power.UNKNOWN), shown(word))


def _token(body: dict[str, Any]) -> str | None:
    if "token" not in body:
        return None
    token = body["token"]
    if token is None or token == "":
        return ""
    if not isinstance(token, str) or len(token) > LONGEST_TOKEN or not ID.match(token):
        raise NotAStatus("the `token` is not a string")
    return token


def _word(reply: Reply) -> str:
    """Plain text: one word, or nothing that could be read as one."""
    content = reply.content[: LONGEST_WORD * 2].strip()
    return content.decode() if _PLAIN.match(content) else ""
