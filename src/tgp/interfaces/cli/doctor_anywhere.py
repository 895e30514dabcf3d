"""`tgp doctor --no-cluster`, or `--cluster-id`: what still runs and costs, asked of the providers alone."""

from functools import partial
from itertools import groupby

from rich.console import Group
from rich.text import Text

from tgp.core.inventory.holdings import cost_words
from tgp.core.model.money import amount
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import TableColumn, print_rows, table, waiting, wrapped
from tgp.services.documents.machines import marked_machine_list
from tgp.services.marked_machines import MarkedMachine, MarkedMachines

NONE, SOME, UNKNOWN = 0, 1, 2


def look_everywhere(services: CliServices, how: str, cluster: str = "") -> int:
    """Print it; the exit code. `cluster`: the id of the one that bought them; empty: any."""
    found = run(_ask(services))
    if cluster:
        found = found.bought_by(cluster)
    names = [f"{one.provider}/{one.instance.id}" for one in found.machines]
    print_rows(partial(render, found, cluster), marked_machine_list(found), "machines", names, how)
    return UNKNOWN if found.failed else SOME if found.machines else NONE


async def _ask(services: CliServices) -> MarkedMachines:
    async with services.market((), "", "") as market:
        with waiting("asking the providers …"):
            return await market.machines()


def render(found: MarkedMachines, asked: str, width: int) -> Group:
    lines: list[Text] = []
    for cluster, rows in groupby(found.machines, key=lambda one: one.cluster):
        lines += _cluster(cluster, tuple(rows), width)
    if not found.machines:
        bought = f"of cluster {asked}" if asked else "that tgp bought"
        lines += wrapped(f"The providers that were asked list no machine {bought}.", width)
    for provider, why in found.failed:
        lines += wrapped(f"{provider} could not be asked, so its machines are unknown: {why}", width)
    if found.keyless:
        names = ", ".join(f"{provider} ({variable})" for provider, variable in found.keyless)
        lines += wrapped(f"Not asked, because no API key is in the environment: {names}.", width)
    if found.machines:
        lines += wrapped("Terminate machines of a cluster that is gone in the provider's console, by their id.", width)
    return Group(*lines)


def _cluster(cluster: str, rows: tuple[MarkedMachine, ...], width: int) -> list[Text]:
    prices = [one.instance.hourly_microusd for one in rows]
    columns = (
        TableColumn("PROVIDER", tuple((one.provider, "") for one in rows)),
        TableColumn("MACHINE", tuple((one.instance.id, "") for one in rows), longest=40),
        TableColumn("STATE", tuple((str(one.instance.state), "") for one in rows)),
        TableColumn(
            "$/HOUR", tuple(("?", "yellow") if price is None else (amount(price), "") for price in prices), right=True
        ),
    )
    return [*wrapped(f"Cluster {cluster}: {cost_words(prices)}.", width), *table(columns, width), Text()]
