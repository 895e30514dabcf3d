"""`tgp doctor node/NAME | request/NAME`: one machine, link by link. It only looks."""

from difflib import get_close_matches

import click

from tgp.core.model.key import Key
from tgp.core.model.survey import Survey
from tgp.core.rules.mesh.way import Target, find, links
from tgp.surfaces.cli.doctor_one_view import Examination, as_document, exit_code, render
from tgp.surfaces.cli.interrupt import run
from tgp.surfaces.cli.output import show, terminal_width, waiting, write
from tgp.surfaces.cli.premises import Hallway
from tgp.surfaces.cli.request_name import OURS, read_name

NODES = frozenset({"node", "nodes", "no"})
USUAL_NAMESPACE = "default"


class NotThere(click.ClickException):
    """Neither well nor ill."""

    exit_code = 2


def examine(hallway: Hallway, where: tuple[str, str, str], what: str, how: str) -> int:
    """Prints it; gives the exit code."""
    node, request = _meant(what)
    examination = run(_look(hallway, where, node, request))
    if how == "table":
        width = terminal_width()
        show(render(examination, width), width)
    else:
        write(as_document(examination), how)
    return exit_code(examination)


async def _look(hallway: Hallway, where: tuple[str, str, str], node: str, request: Key | None) -> Examination:
    async with hallway.premises(*where) as premises:
        with waiting("asking the providers …"):
            survey = await premises.survey()
        target = find(survey, node=node, request=request)
        if target is None:
            raise NotThere(_nowhere(survey, node, request))
        with waiting("looking at the way to it …"):
            way = await premises.way(target)
        return Examination(premises.title, target.name, links(survey, target, way), _following(target))


def _meant(what: str) -> tuple[str, Key | None]:
    kind, slash, rest = what.partition("/")
    if slash and kind.lower() in NODES:
        if not rest or "/" in rest:
            raise click.UsageError(f"{what!r} is no name of a Node; write node/NAME.")
        return rest, None
    if not slash or kind.lower() not in OURS:
        raise click.UsageError(f"{what!r}: write node/NAME, request/NAME or request/NAMESPACE/NAME.")
    named = read_name(what)
    return "", Key(named.namespace or USUAL_NAMESPACE, named.name)


def _nowhere(survey: Survey, node: str, request: Key | None) -> str:
    if request is not None:
        elsewhere = [str(record.key) for record in survey.requests if record.key.name == request.name]
        near = elsewhere or get_close_matches(str(request), [str(record.key) for record in survey.requests], n=3)
        hint = f"; did you mean request/{near[0]}?" if near else "; see kubectl get gpurequests -A"
        return f"there is no request {request}{hint}"
    near = get_close_matches(node, [each.name for each in survey.nodes], n=1)
    hint = f"; did you mean node/{near[0]}?" if near else "; see kubectl get nodes"
    return f"there is no Node {node}, and no request awaits one of that name{hint}"


def _following(target: Target) -> str:
    """Where the request's own words are."""
    return f"tgp why request/{target.request.key}" if target.request is not None else ""
