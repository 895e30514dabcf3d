"""`tgp cost`: what was spent, by month, pool, provider, namespace, class or GPU. It reads the cluster's own records."""

import re
from datetime import UTC, datetime, timedelta

import click

from tgp.api.values import duration
from tgp.core.reports.cost_report import BY, NONE, CostBill, Window, bill_of, costs, month_window
from tgp.core.reports.machine_costs import hourly_total, machine_costs
from tgp.interfaces.cli.cluster_options import cluster_options
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.cost_view import as_csv, render
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import ROW_FORMATS, Formats, print_rows, waiting
from tgp.services.documents.costs import cost_report

NAMED = {"pool": "pool/", "class": "class/"}  # by what -o name prints as other commands take it; others as they are
LONGEST = timedelta(days=36_500)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAYS = re.compile(r"([0-9]{1,5})d")


def _month(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Window | None:
    try:
        return None if value is None else month_window(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a month: write 2026-11.") from None


def _since(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | timedelta | None:
    """A date, or a duration before now."""
    if value is None:
        return None
    try:
        if _DAY.fullmatch(value):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        days = _DAYS.fullmatch(value)
        length = timedelta(days=int(days[1])) if days else duration(value, "--since")
    except ValueError:  # Invalid is one
        raise click.BadParameter(f"{value!r}: write a date (2026-11-01) or a duration (36h, 7d).") from None
    if length > LONGEST:
        raise click.BadParameter(f"{value!r} is longer than 100 years.")
    return length


@click.command()
@click.option("--month", metavar="2026-11", callback=_month, help="Only this month, in UTC.")
@click.option("--since", metavar="DATE|DURATION", callback=_since, help="Since then: 2026-11-01, 36h, 7d.")
@click.option("--by", type=click.Choice(BY), default=None, help="Default: month; with --month or --since: provider.")
@click.option("-o", "--output", "how", type=Formats(ROW_FORMATS), default="table", show_default=True)
@cluster_options
@click.pass_obj
def cost(
    services: CliServices,
    *,
    month: Window | None,
    since: datetime | timedelta | None,
    by: str | None,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Show what was spent, and what still runs. A machine that ran in two months counts in both, by its hours.

    Terminated machines are in the records; running ones are estimated from price and time.
    """
    if month and since:
        raise click.UsageError("Give --month or --since, not both.")
    by = by or ("provider" if month or since else "month")
    bill = run(_bill(services, (kubeconfig, context, namespace), by, month or since))
    if how == "csv":
        click.echo(as_csv(bill), nl=False)
        return
    names = [f"{NAMED.get(by, '')}{line.group}" for line in bill.lines if line.group != NONE]
    print_rows(lambda width: render(bill, width), cost_report(bill), "items", names, how)


async def _bill(
    services: CliServices, where: tuple[str, str, str], by: str, when: Window | datetime | timedelta | None
) -> CostBill:
    async with services.cluster(*where) as cluster:
        with waiting("adding up …"):
            inventory = await cluster.inventory(ask=False)
            recorded, unreadable = await cluster.spend()
    window = _window(when, inventory.now)
    found = costs(recorded, inventory.requests, inventory.now)
    runs = hourly_total(machine_costs(inventory))
    return bill_of(found, by, window, runs, unreadable)


def _window(when: Window | datetime | timedelta | None, now: datetime) -> Window:
    match when:
        case Window():
            return when
        case timedelta():
            return Window(now - when)
        case _:
            return Window(when)
