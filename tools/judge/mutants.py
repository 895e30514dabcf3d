"""Good configs with one thing changed at random, by the table of keys: to hold our checks against Talos's own."""

import copy
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tgp.core.joining.talos.keys import CLASSIC_KIND, KeyForm, KeyShape, kinds, unseen_kinds
from tgp.core.model.talos import TalosVersion
from tools.judge.paper import Paper, good
from tools.judge.samples import samples

MANY_DEEP = 4
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


# Of texts with a meaning of their own, by key: some right, some wrong.
_EXPRESSIONS = (
    "true",
    "disk.transport == 'nvme'",
    "disk.size > 100u * GiB && !system_disk",
    "disk.size > 10",
    "disk.sise > 10u",
    "disk.size",
    "volume.label.startsWith('a')",
    "volume.name in ['a', 'b'] || volume.partition_index == 1u",
    "link.driver == 'virtio_net' && glob('eth*', link.alias)",
    "mac(link.hardware_addr) == '00:00'",
    "mac(link.driver) == 'a'",
    "link.alt_names.exists(n, n.startsWith('e'))",
    "'nvme' in disk.symlinks",
    "disk.symlinks.all(s, s.contains('/dev/disk'))",
    "size(disk.model) > 3",
    "disk.model.matches('(')",
    "disk.model.lower() == 'a'",
    "has(disk.model)",
    "has(disk)",
    "memory_full_avg10 > 12.0",
    "memory_full_avg10 > 12",
    "qos_memory_current[System] > 1.0",
    "multiply_qos_vectors(qos_memory_full_avg10, {System: 1.0}) > 5.0",
    "d_qos_memory_full_total[Guaranteed] + 1.0 < 3.0",
    "time_since_trigger > duration('30s')",
    "memory_max.orValue(0u) > 5u ? 1.0 : 2.0",
    "double(memory_current.orValue(0u))",
    "path.contains('kubepods') ? 1.0 : 0.0",
    "{Besteffort: 1.0, Burstable: 0.5}[class]",
    "class == Burstable",
    "1.5",
    "1",
    "'a",
    "a ==",
    "(true",
    "true)",
    "disk.transport = 'nvme'",
    "system_disk and true",
    "!disk.rotational ? true : false",
    "-disk.size > 1u",
    "disk.size * 2u % 3u == 1u",
    "1 / 0 == 1",
    "dyn(disk.size) > 1",
    "int(disk.size) > 1",
    "'\\q' == 'q'",
    "if",
    "disk.size == 99999999999999999999u",
    "",
)
_NAMES = (
    "a",
    "10.0.0.1",
    "STATE",
    "EPHEMERAL",
    "",
    "a b",
    "x" * 40,
    "x" * 64,
    "10.0.0.0/8",
    "1000",
    "0",
    "32766",
    "net%d",
)
_BOND_WORDS = ("", "802.3ad", "active-backup", "balance-tlb", "slow", "fast", "all", "none", "layer2", "stable", "word")
_BY_KEY: dict[str, tuple[Any, ...]] = {
    "match": _EXPRESSIONS,
    "triggerExpression": _EXPRESSIONS,
    "cgroupRankingExpression": _EXPRESSIONS,
    "name": _NAMES,
    "vlanId": (0, 1, 4094, 4095, 65535, 65536, 70000, -1, "5"),
    "vlanID": (0, 1, 4094, 4095, 65535, 65536, 70000, -1, "5"),
    "maxPoolPercent": (0, 100, 101, -1),
    "minSize": ("10GB", "30GiB", "", "-1GB", "big", "0", "5%"),
    "maxSize": ("10GB", "5MB", "", "-1GB", "50%", "101%", "-5%", "big", "99999999EB"),
    "ports": ([80, 443], ["80-90", 85], ["80"], [70000], ["9-8"], []),
    "table": ("main", "100", "local", "unspec", "253", ""),
    "pcrs": ([0, 7], [24], [-1], []),
    "hardwareAddr": ("2e:3c:4d:5e:6f:70", "2e:3", "word", ""),
    "duidRaw": ("00:01", "0001", "word", ""),
    "endpoint": ("10.0.0.1:80", "a:80", "a", "https://a:80", ""),
    "certificates": ("", "word"),
    "ca": ("", "word", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    "type": ("xfs", "ext4", "btrfs", "linear", "raid0", "raid1", "raid10", "word", ""),
    "mode": _BOND_WORDS,
    "bondMode": _BOND_WORDS,
    "lacpRate": _BOND_WORDS,
    "arpValidate": _BOND_WORDS,
    "arpAllTargets": _BOND_WORDS,
    "primaryReselect": (*_BOND_WORDS, "always", "better"),
    "failOverMac": (*_BOND_WORDS, "follow", "1", "3"),
    "adSelect": (*_BOND_WORDS, "count"),
    "xmitHashPolicy": (*_BOND_WORDS, "layer3+4"),
    "updelay": (0, 100, 150, 200),
    "downdelay": (0, 100, 150, 200),
    "miimon": (0, 100),
    "failureThreshold": (0, 3, -1),
}
_USUAL = 0.8  # how often a key gets one of its own values, where it has some
_BONDED = {"interface": "bond0", "bond": {"interfaces": ["eth1", "eth2"], "mode": "802.3ad", "miimon": 100}}
_TAGGED = {"interface": "eth0", "vlans": [{"vlanId": 5, "addresses": ["10.5.0.7/24"]}]}


def mutants(version: TalosVersion, seed: int) -> Iterator[tuple[str, Paper]]:
    """Without an end, each with a name that says what was done to it."""
    luck = Random(f"{version} {seed}")
    minor = version.minor
    known = {kind: shape for kind, shape in kinds(minor).items() if kind not in unseen_kinds(minor)}
    base = good(version)
    while True:
        paper = copy.deepcopy(base)
        if luck.random() < 0.5:
            yield _changed(paper, known, luck), paper
        else:
            yield _bent(paper, known, minor, luck), paper


def _bent(paper: Paper, known: Mapping[str, KeyShape], minor: int, luck: Random) -> str:
    """A good document of one kind, or a good interface of the classic one, with one or two places changed."""
    whole = samples(minor)
    kind = luck.choice(sorted(whole) + [CLASSIC_KIND] * 6)
    if kind == CLASSIC_KIND:
        at, shape = copy.deepcopy(luck.choice((_BONDED, _TAGGED))), known[kind]
        paper[0]["machine"].setdefault("network", {})["interfaces"] = [at]
        for key in ("machine", "network", "interfaces"):
            shape = shape.keys[key]
        assert shape.of is not None
        shape = shape.of
    else:
        at, shape = whole[kind], known[kind]
        paper[:] = [each for each in paper if each.get("kind") != kind]
        paper.append(at)
    return f"{kind}: " + "; ".join(_bend(at, shape, luck) for _ in range(luck.choice((1, 1, 2))))


def _bend(at: Any, shape: KeyShape, luck: Random) -> str:
    done = ""
    while True:
        key = luck.choice([each for each in sorted(shape.keys) if each in at] * 3 + sorted(shape.keys))
        done += f".{key}"
        inner = shape.keys[key]
        held = at.get(key)
        if inner.form is KeyForm.SECTION and isinstance(held, dict) and inner.keys and luck.random() < 0.9:
            at, shape = held, inner
            continue
        of = inner.of
        if of is not None and of.form is KeyForm.SECTION and isinstance(held, list) and held and luck.random() < 0.9:
            within = luck.randrange(len(held))
            if isinstance(held[within], dict) and of.keys:
                at, shape = held[within], of
                done += f"[{within}]"
                continue
        if luck.random() < 0.15:
            at.pop(key, None)
            return f"without {done}"
        at[key] = _of_key(key, inner, luck, 1)
        return f"{done} = {at[key]!r}"


def _of_key(key: str, shape: KeyShape, luck: Random, depth: int) -> Any:
    if key in _BY_KEY and shape.form is not KeyForm.SECTION and luck.random() < _USUAL:
        return copy.deepcopy(luck.choice(_BY_KEY[key]))
    return _made(shape, luck, depth)


def _changed(paper: Paper, known: Mapping[str, KeyShape], luck: Random) -> str:
    kind = luck.choice((CLASSIC_KIND, CLASSIC_KIND, luck.choice(sorted(known))))
    shape = known[kind]
    if kind == CLASSIC_KIND:
        at = paper[0]
    else:
        at = next((each for each in paper if each.get("kind") == kind), None)
        if at is None:
            at = {"apiVersion": "v1alpha1", "kind": kind}
            if "name" in shape.keys:
                at["name"] = luck.choice(_NAMES)
            paper.append(at)
            if luck.random() < 0.7:
                _fill(at, shape, luck)
    done = f"{kind}"
    for _ in range(MANY_DEEP * 3):
        if shape.form is not KeyForm.SECTION or not shape.keys:
            break
        key = luck.choice(sorted(shape.keys)) if luck.random() > 0.04 else luck.choice(("extra", "Type", "name"))
        done += f".{key}"
        inner = shape.keys.get(key)
        if inner is None or luck.random() < 0.12:
            at[key] = copy.deepcopy(luck.choice(_WRONG))
            return f"{done} = {at[key]!r}"
        if isinstance(at.get(key), dict) and inner.form is KeyForm.SECTION:
            at, shape = at[key], inner
            if luck.random() < 0.1:
                gone = luck.choice(sorted(at) or ["-"])
                at.pop(gone, None)
                return f"{done} without {gone}"
            continue
        at[key] = _of_key(key, inner, luck, 0)
        return f"{done} = {at[key]!r}"
    return done


def _fill(at: dict[str, Any], shape: KeyShape, luck: Random) -> None:
    for key, inner in shape.keys.items():
        if key not in at and luck.random() < 0.6:
            at[key] = _of_key(key, inner, luck, 1)


def _made(shape: KeyShape, luck: Random, depth: int) -> Any:
    if luck.random() < 0.05 or depth > MANY_DEEP:
        return copy.deepcopy(luck.choice(_WRONG))
    match shape.form:
        case KeyForm.SECTION:
            made: dict[str, Any] = {}
            for key, inner in shape.keys.items():
                if luck.random() < 0.5:
                    made[key] = _of_key(key, inner, luck, depth + 1)
            return made
        case KeyForm.LIST:
            return [_made(shape.of or shape, luck, depth + 1) for _ in range(luck.randint(0, 2))]
        case KeyForm.MAPPING:
            return {luck.choice(_TEXTS): _made(shape.of or shape, luck, depth + 1)}
        case KeyForm.TRUTH:
            return luck.choice((True, False, "yes", "on", "off"))
        case KeyForm.NUMBER:
            return luck.choice((0, 1, 1280, 65536, -1))
        case KeyForm.DURATION:
            return luck.choice(("10s", "1h30m", "0", 5, "-1s", "1.5h"))
        case KeyForm.COUNT:
            return luck.choice((0, 1, 255, 256, 1280, 65535, 65536, -1))
        case KeyForm.COUNT8 | KeyForm.COUNT16:
            return luck.choice((0, 1, 255, 256, 65535, 65536, -1))
        case KeyForm.SIZE | KeyForm.SIZES | KeyForm.SPACE | KeyForm.BYTES:
            return luck.choice(("10GB", ">= 1TB", "50%", "-5GiB", "big", "", 7))
        case (
            KeyForm.ACTION
            | KeyForm.AUTO
            | KeyForm.ENCRYPTION
            | KeyForm.FILESYSTEM
            | KeyForm.IDENTIFIER
            | KeyForm.PROTOCOL
            | KeyForm.VOLUME
        ):
            return luck.choice(("accept", "off", "stable", "luks2", "xfs", "mac", "tcp", "disk", "partition", ""))
        case KeyForm.CIDR:
            return luck.choice(("10.0.0.0/8", "10.0.0.7/24", "fd00::/64", "0.0.0.0/0", "10.0.0.1", ""))
        case KeyForm.ADDRESS:
            return luck.choice(("10.0.0.1", "fd00::1", "0.0.0.0", "host", ""))  # noqa: S104 - a value to be refused
        case KeyForm.HOST_PORT:
            return luck.choice(("10.0.0.1:51820", "[fd00::1]:1", "host:1", "10.0.0.1"))
        case KeyForm.URL:
            return luck.choice(("https://a.example:6443", "http://a/b", "a", "a:b:c", "tcp://a:1", ""))
        case KeyForm.BASE64:
            return luck.choice(("aGVsbG8=", "", "not base64", "A" * 43 + "="))
        case _:
            return luck.choice(_TEXTS)
