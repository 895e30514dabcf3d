"""`tgp breakeven`: rent or buy. The arithmetic is in core; prices are given, or asked from the market now."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import click
from rich.console import Group, RenderableType
from rich.text import Text

from tgp.core.market.breakeven import DAYS_IN_A_YEAR, HOURS_IN_A_DAY, BreakEven, Owning, Renting, break_even, two_digits
from tgp.core.model import gpus
from tgp.core.model.money import dollars
from tgp.core.model.prices import MICRO, NotAPrice, hourly_microusd
from tgp.interfaces.cli.cluster_options import document_output
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import TableColumn, show, table, terminal_width, wrapped, write
from tgp.services.documents.market import JOB_HOURS, break_even_document
from tgp.services.market_answers import BreakevenQuestion, Prices

F = TypeVar("F", bound=Callable[..., Any])

MAX_HARDWARE_USD = 10_000_000  # dollars; more is a typing error
MAX_KWH_USD = 100  # dollars
LONGEST_NUMBER = 32  # characters
MONTHS_FROM_DAYS = 90
YEARS_FROM_DAYS = 2 * DAYS_IN_A_YEAR
NEVER = "never"
TO = "\N{EN DASH}"  # between the two ends of a range


Read: TypeAlias = Callable[[click.Context, click.Parameter, str | None], Fraction | None]


def amount(most: int, *, zero: bool = False) -> Read:
    """Reads a decimal number of dollars, or of hours, within bounds, as an exact fraction."""

    def read(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Fraction | None:
        if value is None:
            return None
        number = _decimal(value.removeprefix("$"))
        if not number.is_finite() or not 0 <= number <= most or (number == 0 and not zero):
            least = "from 0" if zero else "above 0,"
            raise click.BadParameter(f"{value[:LONGEST_NUMBER]!r} is not a number {least} up to {most:,}.")
        return Fraction(number)

    return read


def price_range(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Renting | None:
    """Reads `0.40`, or `0.35..0.45`."""
    if value is None:
        return None
    low, dots, high = value.partition("..")
    try:
        ends = [hourly_microusd(end.removeprefix("$")) for end in (low, high if dots else low)]
    except NotAPrice as error:
        raise click.BadParameter(f"{error}; write 0.40 or 0.35..0.45.") from error
    if ends[0] > ends[1]:
        raise click.BadParameter(f"{low} is more than {high}: the lower price comes first.")
    return Renting(*ends)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text if len(text) <= LONGEST_NUMBER else "NaN")
    except InvalidOperation:
        return Decimal("NaN")


def market_options(command: F) -> F:
    """Which market: the real providers, unless the kubeconfig names a demo cluster."""
    opens = "The kubeconfig of `tgp demo` opens the demo's own market. Default: $KUBECONFIG, ~/.kube/config."
    for option in (
        click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one."),
        click.option("--kubeconfig", default="", metavar="FILE", help=opens),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--gpu", required=True, metavar="MODEL", help="RTX3090, A100, …")
@click.option(
    "--hardware",
    required=True,
    metavar="USD",
    callback=amount(MAX_HARDWARE_USD),
    help="Purchase price of one GPU, in dollars.",
)
@click.option(
    "--price",
    metavar="LOW[..HIGH]",
    callback=price_range,
    help="Rent of one GPU for an hour. Default: what the market asks now.",
)
@click.option("--watts", type=click.IntRange(0, 100_000), help="Power draw of the GPU under load.")
@click.option(
    "--kwh", metavar="USD", callback=amount(MAX_KWH_USD, zero=True), help="What a kilowatt-hour costs, in dollars."
)
@click.option(
    "--hours-per-day",
    metavar="HOURS",
    callback=amount(HOURS_IN_A_DAY),
    default="1",
    show_default=True,
    help="How long the GPU is used.",
)
@market_options
@document_output
@click.pass_obj
def breakeven(
    services: CliServices,
    *,
    gpu: str,
    hardware: Fraction,
    price: Renting | None,
    watts: int | None,
    kwh: Fraction | None,
    hours_per_day: Fraction,
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Rent or buy: after how many hours a GPU of your own has paid for itself.

    With --watts and --kwh the electricity counts, too.
    """
    if (watts is None) != (kwh is None):
        raise click.UsageError("--watts and --kwh must be given together: electricity needs both.")
    owning = Owning(_micro(hardware), watts or 0, _micro(kwh or Fraction(0)))
    model = known_gpu(gpu)
    prices = Prices(price, "given") if price else run(_live(services, model, kubeconfig, context))
    question = BreakevenQuestion(model, owning, prices, hours_per_day)
    if how == "table":
        width = terminal_width()
        show(render(question, width), width)
    else:
        write(break_even_document(question), how)


def known_gpu(name: str) -> str:
    """Our name for it, or a usage error with the nearest names. `4090` is enough where only one model can be meant."""
    meant = gpus.completed(name)
    if len(meant) > 1:
        raise click.UsageError(f"{name[:64]!r} could be {', '.join(meant)}: name one of them.")
    members = gpus.family_members(meant[0]) if meant else ()
    if not members:
        near = gpus.nearest(name)
        raise click.UsageError(
            f"No GPU is called {name[:64]!r}." + (f" Did you mean {', '.join(near)}?" if near else "")
        )
    return members[0] if len(members) == 1 else meant[0]


async def _live(services: CliServices, gpu: str, kubeconfig: str, context: str) -> Prices:
    prices = await services.gpu_prices(gpu, kubeconfig, context)
    if prices is None:
        raise click.ClickException(f"No provider lists {gpu} now: give a --price.")
    return prices


def render(question: BreakevenQuestion, width: int) -> RenderableType:
    """For people. Numbers have two digits: prices move, and more digits would promise precision."""
    found = break_even(question.owning, question.prices.renting)
    lines = [*_heading(question, width), Text(), *_jobs(found, width), Text()]
    lines += wrapped(_verdict(question, found), width)
    lines += wrapped(f"{_counted(question)} Numbers are rounded to two digits.", width, style="dim")
    lines += [Text(), *next_lines(f"tgp offers --gpu {question.gpu}")]
    return Group(*lines)


def _heading(question: BreakevenQuestion, width: int) -> list[Text]:
    renting = question.prices.renting
    low, high = dollars(renting.low_microusd), dollars(renting.high_microusd)
    rent = low if low == high else f"{low} {TO} {high}"
    bought = dollars(question.owning.hardware_microusd).removesuffix(".00")
    return wrapped(
        f"{question.gpu}: {bought} to own, {rent} an hour to rent ({question.prices.source})", width, style="bold"
    )


def _jobs(found: BreakEven, width: int) -> list[Text]:
    durations = tuple((f"{hours} hour{'s' if hours > 1 else ''}", "") for hours in JOB_HOURS)
    jobs = tuple((in_words(found.jobs(hours)), "bold") for hours in JOB_HOURS)
    total = tuple((in_words(found), "") for _ in JOB_HOURS)
    columns = [
        TableColumn("Job Duration", durations),
        TableColumn("Jobs to Break Even", jobs),
        TableColumn("Total GPU Hours", total),
    ]
    return table(columns, width)


def _verdict(question: BreakevenQuestion, found: BreakEven) -> str:
    per_day = question.hours_per_day
    usage = f"At {_number(per_day)} hour{'' if per_day == 1 else 's'} a day"
    if found.soonest is None:
        return "Rent: the electricity alone costs as much as the rent, or more."
    if found.latest is None:
        against_highest = BreakEven(found.soonest, found.soonest).days(per_day)
        return f"{usage} owning pays after {_span(against_highest)} against the highest rent, never against the lowest."
    return f"{usage} owning pays after {_span(found.days(per_day))}; renting is cheaper until then."


def _counted(question: BreakevenQuestion) -> str:
    owning = question.owning
    if not owning.electricity_microusd:
        return "Electricity is not counted: add --watts 250 --kwh 0.30."
    hourly = dollars(round(owning.electricity_microusd))
    return f"Electricity is counted: {owning.watts} W at {dollars(owning.kwh_microusd)} are {hourly} an hour."


def _span(days: BreakEven) -> str:
    longest = max(end for end in (days.soonest, days.latest) if end is not None)
    if longest >= YEARS_FROM_DAYS:
        return f"{in_words(_in(days, Fraction(DAYS_IN_A_YEAR)))} years"
    if longest >= MONTHS_FROM_DAYS:
        return f"{in_words(_in(days, Fraction(DAYS_IN_A_YEAR, 12)))} months"
    return f"{in_words(days)} days"


def _in(days: BreakEven, unit: Fraction) -> BreakEven:
    ends = (None if end is None else end / unit for end in (days.soonest, days.latest))
    return BreakEven(*ends)


def in_words(found: BreakEven) -> str:
    """Both ends, or one number where both ends look alike; `never` where owning never pays."""
    soonest, latest = (NEVER if end is None else _number(two_digits(end)) for end in (found.soonest, found.latest))
    return soonest if soonest == latest else f"{soonest} {TO} {latest}"


def _number(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):.3g}"


def _micro(value: Fraction) -> int:
    return max(round(value * MICRO), 1 if value else 0)
