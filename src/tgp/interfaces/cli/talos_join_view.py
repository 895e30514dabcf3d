"""What the join Secret gets, from where, what is new, and what was left out. No secret value is shown."""

from collections.abc import Mapping

from rich.console import Group
from rich.text import Text

from tgp.core.joining.talos.join_source import Taken
from tgp.core.model.join import JOIN_SECRET, NEEDED, OPTIONAL
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import TableColumn, table, wrapped

PUBLIC = frozenset({"endpoint", "cluster-name", "pod-subnets", "service-subnets", "dns-domain"})
STYLES = {"new": "green", "other": "yellow", "gone": "yellow", "same": "dim"}


def change_of(data: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """By key: new, other, gone. Unchanged keys and keys that are not tgp's are left out."""
    changes = {key: "new" if key not in known else "other" for key in data if known.get(key) != data[key]}
    return changes | {key: "gone" for key in (*NEEDED, *OPTIONAL) if key in known and key not in data}


def render(taken: Taken, known: Mapping[str, str] | None, width: int, following: str = "") -> Group:
    """`known`: what the cluster has; None: the cluster was not read."""
    changes = change_of(taken.data, known) if known is not None else {}
    keys = [*taken.data, *(key for key, what in changes.items() if what == "gone")]
    columns = [
        TableColumn("KEY", tuple((key, "bold") for key in keys)),
        TableColumn("FROM", tuple((taken.places.get(key, "—") if key in taken.data else "—", "") for key in keys)),
        TableColumn(
            "VALUE", tuple((_value(taken.data.get(key)) if key in PUBLIC else _hidden(taken, key), "") for key in keys)
        ),
    ]
    if known is not None:
        said = [changes.get(key, "same") for key in keys]
        columns.insert(1, TableColumn("", tuple((word, STYLES[word]) for word in said)))
    lines = [
        *wrapped(
            f"Secret {JOIN_SECRET}, from {taken.source}. The Secret holds what a worker needs, and no CA key.", width
        ),
        Text(),
        *table(columns, width),
    ]
    if taken.left:
        lines += [Text(), Text("left out:", "dim")]
        lines += [line for words in taken.left for line in wrapped(words, width, first="  · ", rest="    ")]
    lines.append(Text())
    if following:
        lines += next_lines(following)
    return Group(*lines)


def _value(value: str | None) -> str:
    return value if value is not None else ""


def _hidden(taken: Taken, key: str) -> str:
    value = taken.data.get(key)
    if value is None:
        return ""
    return "a certificate" if key.endswith(".crt") else f"*** ({len(value)} characters)"
