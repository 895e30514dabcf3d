"""`tgp doctor node/NAME | request/NAME`: one machine, link by link. It only reads."""

from difflib import get_close_matches
from functools import partial

import click
from rich.console import Group
from rich.text import Text

from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.text import plain
from tgp.core.reports.path_check import CheckedMachine, check_path, links
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.next_step import as_called, next_lines
from tgp.interfaces.cli.output import print_rows, waiting, wrapped
from tgp.interfaces.cli.request_name import OURS, read_name
from tgp.services.documents.connectivity import Examination, connectivity_report, exit_code, summary

NODES = frozenset({"node", "nodes", "no"})
USUAL_NAMESPACE = "default"
MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}


class NotThere(click.ClickException):
    """The named object does not exist, so there is nothing to examine."""

    exit_code = 2


def examine(services: CliServices, where: tuple[str, str, str], what: str, how: str) -> int:
    """Print the report; return the exit code."""
    node, request = _meant(what)
    examination = run(_look(services, where, node, request))
    names = [link.name for link in examination.links]
    print_rows(partial(render, examination), connectivity_report(examination), "links", names, how)
    return exit_code(examination)


async def _look(
    services: CliServices, where: tuple[str, str, str], node: str, request: ObjectKey | None
) -> Examination:
    async with services.cluster(*where) as cluster:
        with waiting("asking the providers …"):
            inventory = await cluster.inventory()
        target = check_path(inventory, node=node, request=request)
        if target is None:
            raise NotThere(_nowhere(inventory, node, request))
        with waiting("checking the connection to the machine …"):
            way = await cluster.way(target)
        return Examination(cluster.title, target.name, links(inventory, target, way), _following(target))


def _meant(what: str) -> tuple[str, ObjectKey | None]:
    kind, slash, rest = what.partition("/")
    if slash and kind.lower() in NODES:
        if not rest or "/" in rest:
            raise click.UsageError(f"{what!r} is not the name of a Node; write node/NAME.")
        return rest, None
    if not slash or kind.lower() not in OURS:
        raise click.UsageError(f"{what!r}: write node/NAME, request/NAME or request/NAMESPACE/NAME.")
    named = read_name(what)
    return "", ObjectKey(named.namespace or USUAL_NAMESPACE, named.name)


def _nowhere(inventory: ClusterInventory, node: str, request: ObjectKey | None) -> str:
    if request is not None:
        elsewhere = [str(record.key) for record in inventory.requests if record.key.name == request.name]
        near = elsewhere or get_close_matches(str(request), [str(record.key) for record in inventory.requests], n=3)
        hint = f"; did you mean request/{near[0]}?" if near else "; see kubectl get gpurequests -A"
        return f"There is no request {request}{hint}"
    near = get_close_matches(node, [each.name for each in inventory.nodes], n=1)
    hint = f"; did you mean node/{near[0]}?" if near else "; see kubectl get nodes"
    return f"There is no Node {node}, and no request waits for a Node of that name{hint}"


def _following(target: CheckedMachine) -> str:
    """The command that explains the request."""
    return f"tgp why request/{target.request.key}" if target.request is not None else ""


def render(examination: Examination, width: int) -> Group:
    lines = [Text.assemble((plain(examination.name), "bold"), (f"  in cluster {plain(examination.title)}", "dim"))]
    widest = max((len(link.name) for link in examination.links), default=0)
    for link in examination.links:
        mark, style = MARKS[link.ok]
        start = f"{mark} {link.name:<{widest}}  "
        for number, line in enumerate(wrapped(link.words, width, first=start, rest=" " * len(start))):
            if number == 0:
                line.stylize(style, 0, 1)
                line.stylize("bold", 2, 2 + len(link.name))
            lines.append(line)
        if link.fix:
            lines += wrapped(as_called(link.fix), width, first=" " * len(start) + "fix: ", rest=" " * (len(start) + 5))
    lines += [Text(), *wrapped(summary(examination), width, style="bold")]
    if examination.following:
        lines += next_lines(examination.following)
    return Group(*lines)
