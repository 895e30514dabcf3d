"""What a container runs, in its two spellings: `entrypoint` and `cmd` as lists, `args` as one text that holds both."""

import shlex
from typing import Any

import msgspec

from tgp.ports.http import NO_JSON


def shown(body: dict[str, Any]) -> dict[str, Any]:
    """All three, as every pod shows them, whichever were sent."""
    entrypoint, cmd = _parts(body.get("args", "")) if "args" in body else ([], [])
    entrypoint, cmd = body.get("entrypoint", entrypoint), body.get("cmd", cmd)
    stored = {key: value for key, value in (("entrypoint", entrypoint), ("cmd", cmd)) if value}
    args = body.get("args") or (msgspec.json.encode(stored).decode() if stored else "")
    return {"args": args, "entrypoint": entrypoint, "cmd": cmd}


def agree(body: dict[str, Any]) -> bool:
    """May they be sent together? Only where they mean the same."""
    if not body.get("args"):
        return True
    entrypoint, cmd = _parts(body["args"])
    return (body.get("entrypoint", entrypoint), body.get("cmd", cmd)) == (entrypoint, cmd)


def _parts(args: str) -> tuple[list[str], list[str]]:
    try:
        both = msgspec.json.decode(args, type=dict[str, list[str]])
    except NO_JSON:
        return [], _split(args)
    return both.get("entrypoint", []), both.get("cmd", [])


def _split(args: str) -> list[str]:
    try:
        return shlex.split(args)
    except ValueError:  # an open quote
        return args.split()
