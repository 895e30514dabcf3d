"""Hostile values through a renderer: does any of them become more than the one string it is?"""

from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import TypeAlias

from tests.core.talos.a_plan import a_join, a_plan
from tests.core.talos.hostile import MEBIBYTE, PIECES
from tgp.core.joining.talos.render import compose
from tgp.core.joining.talos.stream import UnreadableStream, read_stream
from tgp.core.joining.talos.template import shape
from tgp.core.model.mesh import TailscaleJoin
from tgp.core.model.secret import Secret

Values: TypeAlias = dict[str, str]
Renderer: TypeAlias = Callable[[str, Values], str]

VARIABLES = (
    "MachineToken",
    "MachineCA",
    "ClusterCA",
    "ClusterID",
    "ClusterSecret",
    "ClusterToken",
    "ControlPlaneEndpoint",
    "ClusterName",
    "TailscaleAuthKey",
    "NodeName",
    "NodePool",
    "DNSDomain",
)
# Each variable stands in every kind of place that YAML has for a text.
PLACES: dict[str, tuple[str, Callable[[str], str]]] = {
    "PLAIN": ("{{.%s}}", lambda value: value),
    "SPACED": ("{{ .%s }}", lambda value: value),
    "SINGLE": ("'{{.%s}}'", lambda value: value),
    "DOUBLE": ('"{{.%s}}"', lambda value: value),
    "WITHIN": ("before-{{.%s}}-after", lambda value: f"before-{value}-after"),
    "QUOTED_WITHIN": ('"a: {{.%s}} #"', lambda value: f"a: {value} #"),
    "TWICE": ("'{{.%s}}{{.NodeName}}'", lambda value: value),  # and the node's name
    "BLOCK": ("|\n      first\n      {{.%s}}\n      last", lambda value: f"first\n{value}\nlast\n"),
}
TEMPLATES = 16  # so many, one after the other
VALUES_PER_RENDERING = len(VARIABLES)


def template(luck: Random) -> str:
    """Every variable once, in a place that luck decides."""
    lines = [f"    {place}_{name}: {PLACES[place][0] % name}\n" for name, place in _placed(luck)]
    return "machine:\n  env:\n" + "".join(lines)


def _placed(luck: Random) -> list[tuple[str, str]]:
    return [(name, luck.choice(sorted(PLACES))) for name in VARIABLES]


def ours(template: str, values: Values, talos: str = "v1.13.0") -> str:
    mesh = TailscaleJoin(Secret(values["TailscaleAuthKey"]), hostname=values["NodeName"])
    plan = a_plan(
        talos,
        node_name=values["NodeName"],
        bootstrap_token=Secret(values["ClusterToken"]),
        pool=values["NodePool"],
        mesh=mesh,
        labels={"a.example/pool": values["NodePool"]},
    )
    join = a_join(
        machine_token=Secret(values["MachineToken"]),
        machine_ca=values["MachineCA"],
        cluster_ca=values["ClusterCA"],
        cluster_id=Secret(values["ClusterID"]),
        cluster_secret=Secret(values["ClusterSecret"]),
        endpoint=values["ControlPlaneEndpoint"],
        cluster_name=values["ClusterName"],
        dns_domain=values["DNSDomain"],
    )
    return compose(plan, join, template).text


def inert_values() -> Values:
    return dict.fromkeys(VARIABLES, "inert")


def hostile(luck: Random) -> Values:
    return {name: _value(luck) for name in VARIABLES}


def _value(luck: Random) -> str:
    pieces = [_piece(luck) for _ in range(luck.randint(0, 10))]
    if luck.random() < 0.001:
        pieces.append(luck.choice(PIECES) * (MEBIBYTE // 20))
    return "".join(pieces)


def _piece(luck: Random) -> str:
    if luck.random() < 0.8:
        return luck.choice(PIECES)
    code = luck.choice((luck.randrange(0x100), luck.randrange(0x3000), luck.randrange(0x110000)))
    return "a" if 0xD800 <= code < 0xE000 else chr(code)


def expected(env: dict[str, object], values: Values) -> dict[str, str]:
    """What the environment must hold afterwards, to the letter, by the names of the keys."""
    wanted = {}
    for key in env:
        place, _, name = key.rpartition("_")
        wanted[key] = PLACES[place][1](values[name]) + (values["NodeName"] if place == "TWICE" else "")
    return wanted


def structural_changes(render: Renderer, renderings: int, seed: int = 1) -> Iterator[str]:
    """What went wrong, one sentence for each rendering in which something did."""
    for number in range(renderings):
        luck = Random(f"{seed} {number}")
        written = template(Random(f"{seed} {number % TEMPLATES}"))
        if (wrong := _wrong(render, written, hostile(luck))) is not None:
            yield f"rendering {number} of seed {seed}: {wrong}"


def _wrong(render: Renderer, written: str, values: Values) -> str | None:
    wanted = _structure(written)
    try:
        documents = [document.data for document in read_stream(render(written, values))]
    except UnreadableStream as error:
        return f"cannot be read: {error}"
    if [shape(document) for document in documents] != wanted:
        return "has another structure"
    told = documents[0]["machine"]["env"]
    wrong = [key for key, value in expected(told, values).items() if told[key] != value]
    return f"{wrong[0]} holds something else" if wrong else None


@cache
def _structure(written: str) -> list[object]:
    return [shape(document.data) for document in read_stream(ours(written, inert_values()))]
