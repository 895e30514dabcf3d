"""Good configs with one thing changed at random, by the table of keys: to hold our checks against Talos's own."""

import copy
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tgp.core.model.talos import TalosVersion
from tgp.core.rules.talos.keys import CLASSIC_KIND, Form, Shape, kinds
from tools.judge.paper import Paper, good

MANY_DEEP = 4
# Kinds that are checked as Talos validates them. Of the others the keys and forms are checked, and not what they say.
DEEP = frozenset(
    (
        CLASSIC_KIND,
        "DiscoveryServiceConfig",
        "EnvironmentConfig",
        "EventSinkConfig",
        "ExtensionServiceConfig",
        "HostnameConfig",
        "KmsgLogConfig",
        "KubeSpanConfig",
        "KubeSpanEndpointsConfig",
        "LinkConfig",
        "NetworkDefaultActionConfig",
        "NetworkRuleConfig",
        "RegistryAuthConfig",
        "RegistryMirrorConfig",
        "RegistryTLSConfig",
        "ResolverConfig",
        "SideroLinkConfig",
        "StaticHostConfig",
        "SysctlConfig",
        "SysfsConfig",
        "TimeSyncConfig",
        "TrustedRootsConfig",
        "UserVolumeConfig",
        "VolumeConfig",
        "WatchdogTimerConfig",
        "WireguardConfig",
    )
)
_TEXTS = (
    "",
    "a",
    "eth0",
    "worker",
    "10.0.0.1",
    "10.0.0.0/8",
    "fd00::/8",
    "https://a.example:1",
    "tcp://a:1",
    "1",
    "true",
    "A" * 43 + "=",
    "aGVsbG8=",
    "a b",
    "é",
    "30s",
    "*",
)
_WRONG: tuple[Any, ...] = (
    "word",
    7,
    -1,
    1.5,
    True,
    False,
    None,
    [],
    {},
    ["a"],
    {"a": "b"},
    [{}],
    [None],
    "0x10",
    "yes",
    "off",
    "~",
    "10s",
    "1e3",
)


def mutants(version: TalosVersion, seed: int) -> Iterator[tuple[str, Paper]]:
    """Without an end, each with a name that says what was done to it."""
    luck = Random(f"{version} {seed}")
    known = {kind: shape for kind, shape in kinds(version.minor).items() if kind in DEEP}
    base = good(version)
    while True:
        paper = copy.deepcopy(base)
        yield _changed(paper, known, luck), paper


def _changed(paper: Paper, known: Mapping[str, Shape], luck: Random) -> str:
    kind = luck.choice((CLASSIC_KIND, CLASSIC_KIND, luck.choice(sorted(known))))
    shape = known[kind]
    if kind == CLASSIC_KIND:
        at = paper[0]
    else:
        at = next((each for each in paper if each.get("kind") == kind), None)
        if at is None:
            at = {"apiVersion": "v1alpha1", "kind": kind}
            if "name" in shape.keys:
                at["name"] = luck.choice(("a", "10.0.0.1", "STATE", ""))
            paper.append(at)
            if luck.random() < 0.7:
                _fill(at, shape, luck)
    done = f"{kind}"
    for _ in range(MANY_DEEP * 3):
        if shape.form is not Form.SECTION or not shape.keys:
            break
        key = luck.choice(sorted(shape.keys)) if luck.random() > 0.04 else luck.choice(("extra", "Type", "name"))
        done += f".{key}"
        inner = shape.keys.get(key)
        if inner is None or luck.random() < 0.12:
            at[key] = copy.deepcopy(luck.choice(_WRONG))
            return f"{done} = {at[key]!r}"
        if isinstance(at.get(key), dict) and inner.form is Form.SECTION:
            at, shape = at[key], inner
            if luck.random() < 0.1:
                gone = luck.choice(sorted(at) or ["-"])
                at.pop(gone, None)
                return f"{done} without {gone}"
            continue
        at[key] = _made(inner, luck, 0)
        return f"{done} = {at[key]!r}"
    return done


def _fill(at: dict[str, Any], shape: Shape, luck: Random) -> None:
    for key, inner in shape.keys.items():
        if key not in at and luck.random() < 0.6:
            at[key] = _made(inner, luck, 1)


def _made(shape: Shape, luck: Random, depth: int) -> Any:
    if luck.random() < 0.05 or depth > MANY_DEEP:
        return copy.deepcopy(luck.choice(_WRONG))
    match shape.form:
        case Form.SECTION:
            made: dict[str, Any] = {}
            for key, inner in shape.keys.items():
                if luck.random() < 0.5:
                    made[key] = _made(inner, luck, depth + 1)
            return made
        case Form.LIST:
            return [_made(shape.of or shape, luck, depth + 1) for _ in range(luck.randint(0, 2))]
        case Form.MAPPING:
            return {luck.choice(_TEXTS): _made(shape.of or shape, luck, depth + 1)}
        case Form.TRUTH:
            return luck.choice((True, False, "yes", "on", "off"))
        case Form.NUMBER:
            return luck.choice((0, 1, 1280, 65536, -1))
        case Form.DURATION:
            return luck.choice(("10s", "1h30m", "0", 5, "-1s", "1.5h"))
        case Form.COUNT:
            return luck.choice((0, 1, 1280, 65536, -1))
        case Form.SIZE | Form.SIZES | Form.SPACE:
            return luck.choice(("10GB", ">= 1TB", "50%", "-5GiB", "big", "", 7))
        case (
            Form.ACTION | Form.AUTO | Form.ENCRYPTION | Form.FILESYSTEM | Form.IDENTIFIER | Form.PROTOCOL | Form.VOLUME
        ):
            return luck.choice(("accept", "off", "stable", "luks2", "xfs", "mac", "tcp", "disk", "partition", ""))
        case Form.CIDR:
            return luck.choice(("10.0.0.0/8", "10.0.0.7/24", "fd00::/64", "0.0.0.0/0", "10.0.0.1", ""))
        case Form.ADDRESS:
            return luck.choice(("10.0.0.1", "fd00::1", "0.0.0.0", "host", ""))  # noqa: S104 - a value to be refused
        case Form.HOST_PORT:
            return luck.choice(("10.0.0.1:51820", "[fd00::1]:1", "host:1", "10.0.0.1"))
        case Form.URL:
            return luck.choice(("https://a.example:6443", "http://a/b", "a", "a:b:c", "tcp://a:1", ""))
        case Form.BASE64:
            return luck.choice(("aGVsbG8=", "", "no base64", "A" * 43 + "="))
        case _:
            return luck.choice(_TEXTS)
