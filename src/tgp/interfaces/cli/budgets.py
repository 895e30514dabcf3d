"""`tgp budgets`: what each budget has used, whether more would fit, hours on top, a fresh start, and a report."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial

import click

from tgp.api.values import duration, rfc3339
from tgp.core.budgets.reset import ResetAsked
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.cost_report import month_window
from tgp.interfaces.cli import budgets_view
from tgp.interfaces.cli.cluster_options import document_output, kubeconfig_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.confirm import agreed
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.next_step import as_called
from tgp.interfaces.cli.output import ROW_FORMATS, Formats, print_rows, show, terminal_width, waiting, write
from tgp.interfaces.cli.request_name import read_subject
from tgp.ports.cluster import ClusterError
from tgp.services.budget_answers import BudgetBoard, BudgetLine, BudgetReport, Simulation
from tgp.services.documents.budgets import (
    budget_list,
    budget_report,
    budget_reset,
    budget_simulation,
    fits_now,
    one_budget,
)

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNTIL = "write a day (friday), a date (2026-11-20), a time (2026-11-20T18:00:00Z) or a length (36h, 3d)"
NOT_RESET = (
    "Budget {} is not reset yet: the reset is asked for, and the operator has not done it. It does so as soon as it "
    "runs.\nnext: {}"
)
NOT_NOW = 1  # the exit code of `simulate` if it does not fit now
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LENGTH = re.compile(r"([0-9]{1,4})d")
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")


def _number(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not _NUMBER.fullmatch(value) or not float(value):
        raise click.BadParameter(f"{value!r}: write a number above zero, such as 20 or 0.5.", param=param)
    return value


def until(text: str, now: datetime) -> datetime:
    """A day or a date is meant to its end (UTC). Raises BadParameter."""
    word = text.strip().lower()
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    try:
        if word in DAYS:
            at = today + timedelta(days=(DAYS.index(word) - now.weekday()) % 7 + 1)
        elif _DAY.fullmatch(word):
            at = datetime.fromisoformat(word).replace(tzinfo=UTC) + timedelta(days=1)
        elif days := _LENGTH.fullmatch(word):
            at = now + timedelta(days=int(days[1]))
        elif "t" in word:
            at = datetime.fromisoformat(text.strip())
        else:
            at = now + duration(word, "--until")
    except ValueError:  # Invalid is one
        raise click.BadParameter(f"--until {text!r}: {UNTIL}.") from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if at <= now:
        raise click.BadParameter(f"--until {text!r} is {rfc3339(at)}, which is in the past.")
    return at.astimezone(UTC).replace(microsecond=0)


def _labels(_ctx: click.Context, _param: click.Parameter, value: str) -> dict[str, str]:
    found = {}
    for part in filter(None, value.split(",")):
        name, equals, meant = part.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{part!r} is not a label: write team=ml.")
        found[name] = meant
    return found


def _budget(name: str, namespace: str) -> ObjectKey:
    kind, key = read_subject(
        name if name.count("/") == 2 or name.startswith("budget/") else f"budget/{name}", namespace
    )
    if kind != "budget":
        raise click.UsageError(f"{name!r} is not a budget: write NAME or NAMESPACE/NAME.")
    return key


@click.group(invoke_without_command=True)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only this namespace. Default: all of them.")
@click.option("-o", "--output", "how", type=Formats(ROW_FORMATS), default="table", show_default=True)
@kubeconfig_options
@click.pass_context
def budgets(ctx: click.Context, *, namespace: str, how: str, kubeconfig: str, context: str) -> None:
    """Show every GPU-hour budget: used, left, how fast, when it is used up, and when hours come back."""
    if ctx.invoked_subcommand is not None:
        return
    services: CliServices = ctx.obj
    try:
        with waiting("asking the cluster …"):
            board = run(_board(services, (kubeconfig, context), namespace))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    names = [f"budget/{line.key}" for line in board.lines]
    print_rows(partial(budgets_view.render, board), budget_list(board), "items", names, how)


async def _board(services: CliServices, where: tuple[str, str], namespace: str) -> BudgetBoard:
    async with services.budgets(*where) as found:
        return await found.board(namespace)


@budgets.command()
@click.option(
    "--gpus", default="1", callback=_number, metavar="NUMBER", help="How many GPUs, in units of the resource."
)
@click.option("--hours", default="1", callback=_number, metavar="NUMBER", help="For how many hours.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Of the pod. Default: the kubeconfig's.")
@click.option("-l", "--labels", default="", callback=_labels, metavar="KEY=VALUE,…", help="Of the pod.")
@document_output
@kubeconfig_options
@click.pass_obj
def simulate(
    services: CliServices,
    *,
    gpus: str,
    hours: str,
    namespace: str,
    labels: dict[str, str],
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Say whether a pod would fit into its budgets: now, from when, or never. Exit code 1: not now.

    Everything that runs now is assumed to keep running. Without -l every budget of the namespace is looked at.
    """
    milli, lasts = round(float(gpus) * 1000), round(float(hours) * 3600)

    async def ask() -> Simulation:
        async with services.budgets(kubeconfig, context) as found:
            return await found.simulate(namespace, labels, milli, lasts)

    try:
        with waiting("asking the cluster …"):
            answer = run(ask())
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how == "table":
        width = terminal_width()
        show(budgets_view.render_simulation(answer, gpus, hours, width), width)
    else:
        write(budget_simulation(answer), how)
    if not fits_now(answer):
        raise SystemExit(NOT_NOW)


@budgets.command("top-up")
@click.argument("name", metavar="NAME", shell_complete=live_names("budget", bare=True))
@click.option("--gpu-hours", required=True, callback=_number, metavar="NUMBER", help="Hours on top of the quota.")
@click.option("--until", "ends", required=True, metavar="DAY|TIME", help=f"When they expire: {UNTIL}.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for people.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@document_output
@kubeconfig_options
@click.pass_obj
def top_up(
    services: CliServices,
    *,
    name: str,
    gpu_hours: str,
    ends: str,
    reason: str,
    namespace: str,
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Grant hours on top of a quota until a moment (spec.quota.extra)."""
    key, begun = _budget(name, namespace), BegunSteps("Nothing was changed.")

    async def ask() -> tuple[BudgetLine, datetime]:
        async with services.budgets(kubeconfig, context) as found:
            at = until(ends, (await found.board(key.namespace)).now)
            begun.words = "Whether the hours were granted is unknown: see tgp budgets."
            return await found.top_up(key, gpu_hours, at, reason), at

    try:
        line, at = run(ask(), begun)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how != "table":
        write(one_budget(line), how)
        return
    click.echo(
        f"Budget {line.key} has {gpu_hours} GPU-hours more until {rfc3339(at)}: "
        f"its quota is {budgets_view.hours(line.limits.used)} GPU-hours until then."
    )
    click.echo(f"next: {as_called(f'tgp why budget/{line.key}')}")


@budgets.command()
@click.argument("name", metavar="NAME", shell_complete=live_names("budget", bare=True))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@document_output
@kubeconfig_options
@click.pass_obj
def reset(
    services: CliServices, *, name: str, yes: bool, namespace: str, how: str, kubeconfig: str, context: str
) -> None:
    """Start a budget's account afresh: what was used counts no longer. An Event says who asked, and when.

    The hours stay in the daily report.
    """
    key, begun = _budget(name, namespace), BegunSteps("Nothing was changed.")

    async def ask() -> tuple[BudgetLine, ResetAsked]:
        async with services.budgets(kubeconfig, context) as found:
            line = (await found.enquire(key)).line
            if not agreed(f"Reset budget {line.key}? {_used(line)} GPU-hours would no longer count.", yes=yes):
                raise click.UsageError("Nothing was reset. Without a terminal, add --yes.")
            begun.words = "Whether the budget was reset is unknown: see its Events."
            asked = await found.reset(line.key)
            if not await found.is_reset(line.key, asked):
                raise click.ClickException(NOT_RESET.format(line.key, as_called("tgp doctor")))
            return line, asked

    try:
        line, asked = run(ask(), begun)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how != "table":
        write(budget_reset(line, asked), how)
        return
    who = f" as {asked.who}" if asked.who else ""
    click.echo(f"Budget {line.key} is reset at {rfc3339(asked.at)}{who}: {_used(line)} GPU-hours no longer count.")
    click.echo(f"next: {as_called(f'tgp why budget/{line.key}')}")


def _used(line: BudgetLine) -> str:
    return budgets_view.hours(line.seen.used) if line.seen is not None else "0"


def _month(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        month_window(value or "2026-01")
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a month: write 2026-11.") from None
    return value


@budgets.command()
@click.option("--month", default="", callback=_month, metavar="2026-11", help="In UTC. Default: this month.")
@click.option(
    "-o", "--output", "how", type=Formats(["table", "json", "yaml", "csv"]), default="table", show_default=True
)
@kubeconfig_options
@click.pass_obj
def report(services: CliServices, *, month: str, how: str, kubeconfig: str, context: str) -> None:
    """Show what each budget used in a month, for charging back; with -o csv day by day."""

    async def ask() -> BudgetReport:
        async with services.budgets(kubeconfig, context) as found:
            return await found.report(month)

    try:
        with waiting("adding up …"):
            answer = run(ask())
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how == "csv":
        click.echo(budgets_view.report_csv(answer), nl=False)
    elif how == "table":
        width = terminal_width()
        show(budgets_view.render_report(answer, width), width)
    else:
        write(budget_report(answer), how)
