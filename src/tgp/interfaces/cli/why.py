"""`tgp why`: what a request, a pod, a Node, a pool or a budget waits for, and what would help. It only reads."""

from collections.abc import Mapping
from typing import Any

import click
from rich.console import Group

from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.cli import why_view
from tgp.interfaces.cli.cluster_options import document_output, kubeconfig_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import show, terminal_width, waiting, write
from tgp.interfaces.cli.request_name import read_subject
from tgp.ports.cluster import ClusterError
from tgp.services.documents.requests import request_reason


@click.command()
@click.argument("name", metavar="KIND/NAME", shell_complete=live_names("request", "node", "pod", "pool", "budget"))
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@document_output
@kubeconfig_options
@click.pass_obj
def why(services: CliServices, *, name: str, namespace: str, how: str, kubeconfig: str, context: str) -> None:
    """Explain the state of a request, a pod, a Node, a pool or a budget.

    KIND/NAME is request/NAME, pod/NAME, node/NAME, pool/NAME or budget/NAME; NAME alone is a request, and
    NAMESPACE/NAME works for all but Nodes. It says what the object waits for, since when, until when, and what would
    help.
    """
    kind, key = read_subject(name, namespace)
    width = terminal_width()
    try:
        with waiting("asking the cluster …"):
            screen, found = run(_ask(services, (kubeconfig, context), kind, key, width))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how == "table":
        show(screen, width)
    else:
        write(found, how)


async def _ask(
    services: CliServices, where: tuple[str, str], kind: str, key: ObjectKey, width: int
) -> tuple[Group, Mapping[str, Any]]:
    """As a screen, and as a document."""
    if kind == "request":
        async with services.requests(*where) as requests:
            asked = await requests.enquire(key)
        return why_view.render(asked, width), request_reason(asked)
    if kind == "budget":
        from tgp.interfaces.cli import budgets_view
        from tgp.services.documents.budgets import budget_enquiry

        async with services.budgets(*where) as budgets:
            budget = await budgets.enquire(key)
        return budgets_view.render_budget(budget, width), budget_enquiry(budget)
    from tgp.interfaces.cli import why_plan_view  # these load the planner: not needed for a request
    from tgp.services.documents.reasons import node_reason, pod_reason, pool_reason

    async with services.plans(*where) as plans:
        if kind == "pod":
            pod = await plans.pod(key)
            return why_plan_view.render_pod(pod, width), pod_reason(pod)
        if kind == "node":
            node = await plans.node(key.name)
            return why_plan_view.render_node(node, width), node_reason(node)
        pool = await plans.pool(key)
        return why_plan_view.render_pool(pool, width), pool_reason(pool)
