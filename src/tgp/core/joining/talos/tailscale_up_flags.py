"""The `tailscale up` flags of an old unit or script, as the extension's environment."""

import re
import shlex
from collections.abc import Iterator

import msgspec

_UP = re.compile(r"\btailscale\s+up\b(.*)")
_KEPT = frozenset(
    (
        "accept-routes",
        "advertise-exit-node",
        "advertise-tags",
        "exit-node",
        "exit-node-allow-lan-access",
        "netfilter-mode",
        "shields-up",
        "snat-subnet-routes",
        "ssh",
        "stateful-filtering",
    )
)
_OURS = frozenset(("authkey", "auth-key", "authkey-file", "hostname", "login-server"))  # the class's, or the node's own
_SWITCHES = frozenset(
    ("reset", "force-reauth", "json", "qr", *(_KEPT - {"advertise-tags", "exit-node", "netfilter-mode"}))
)


class UpFlags(msgspec.Struct, frozen=True):
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # names of flags without an equivalent

    def told(self) -> str:
        kept = f"; kept: {', '.join(sorted(self.environment))}" if self.environment else ""
        lost = f"; left out: {', '.join(f'--{name}' for name in self.left_out)}" if self.left_out else ""
        return kept + lost


def read_up(content: str) -> UpFlags:
    """Of the first `tailscale up` in it."""
    found = _UP.search(content.replace("\\\n", " "))
    environment: dict[str, str] = {}
    arguments: list[str] = []
    left_out: list[str] = []
    for name, value in _flags(found[1] if found else ""):
        if name == "advertise-routes" and value:
            environment["TS_ROUTES"] = value
        elif name == "accept-dns":
            environment["TS_ACCEPT_DNS"] = value or "true"
        elif name in _KEPT:
            arguments.append(f"--{name}={value}" if value is not None else f"--{name}")
        elif name not in _OURS:
            left_out.append(name)
    if arguments:
        environment["TS_EXTRA_ARGS"] = " ".join(arguments)
    return UpFlags(environment, tuple(left_out))


def _flags(text: str) -> Iterator[tuple[str, str | None]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quote that is never closed
        words = text.split()
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word in {"&", "&&", "||", ";", "|"}:
            return
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and name not in _SWITCHES and place < len(words) and not words[place].startswith("-"):
            value, equals = words[place], "="
            place += 1
        yield name, value if equals else None


def joined_arguments(ours: str, theirs: str) -> str:
    """Both, each flag once: the template wins, except for the login server and the machine's name."""
    flags = {word.partition("=")[0]: word for word in ours.split()}
    said = iter(theirs.split())
    for word in said:
        name, equals, _ = word.partition("=")
        if name in {"--hostname", "-hostname"} or (name == "--login-server" and name in flags):
            if not equals:
                next(said, "")  # its value
            continue
        flags[name] = word
    return " ".join(flags.values())
