"""`tgp offers`: what can be rented right now. It asks, and never buys."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from shutil import get_terminal_size

import click

from tgp.core.model.offer import BootMode
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.interfaces.cli.breakeven import known_gpu, market_options
from tgp.interfaces.cli.context import CliServices, OfferActions
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.offers_view import SHOWN, folded, render, render_models
from tgp.interfaces.cli.output import ROW_FORMATS, UNBOUNDED, Formats, show, terminal_width, waiting, write_rows
from tgp.services.documents.market import gpu_price_list, offer_list
from tgp.services.market_answers import OfferAnswer, OfferQuestion, models_of

LOOK_EVERY = 5.0  # seconds between two frames of --watch; the price book refreshes at its own pace
NOTHING_FITS = 1  # the exit code of grep
BELOW_ROWS = 12  # lines of a screen: heads, and the notes under a table
FEWEST = 3


def _price(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else hourly_microusd(value.removeprefix("$"))
    except NotAPrice as error:
        raise click.BadParameter(f"{error}.") from error


@click.command()
@click.option("--gpu", "gpus", multiple=True, metavar="MODEL", help="Model or family: RTX4090, A100. Repeatable.")
@click.option("--count", type=click.IntRange(1, 64), help="Exactly this many GPUs in one machine.")
@click.option("--max-price", metavar="USD", callback=_price, help="Highest price of the whole machine, per hour.")
@click.option("--region", "regions", multiple=True, metavar="REGION", help="us, eu-west, … Repeatable.")
@click.option("--spot/--no-spot", default=None, help="Only spot, or only on-demand. Default: both.")
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only these. Repeatable.")
@click.option("--min-vram", type=click.IntRange(0, 1024), default=0, metavar="GIB", help="Memory of one GPU, at least.")
@click.option(
    "--join",
    type=click.Choice(["talos", "any"]),
    help="talos: only offers that can become a node; any: containers as rows, too. Default: containers in one line.",
)
@click.option("--group-by", "group", type=click.Choice(["gpu"]), help="One row per GPU model.")
@click.option(
    "--limit", type=click.IntRange(0), help=f"Number of offers, best first; 0: all. Default: {SHOWN} in a table."
)
@click.option("-o", "--output", "how", type=Formats(ROW_FORMATS), default="table", show_default=True)
@market_options
@click.option("--direct", is_flag=True, help="Ask the providers with this terminal's API keys, never the operator.")
@click.option("-w", "--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.pass_obj
def offers(
    services: CliServices,
    *,
    gpus: tuple[str, ...],
    count: int | None,
    max_price: int | None,
    regions: tuple[str, ...],
    spot: bool | None,
    providers: tuple[str, ...],
    min_vram: int,
    join: str | None,
    group: str | None,
    limit: int | None,
    how: str,
    direct: bool,
    watch: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Show the offers on sale now: price, age, availability. Nothing is bought.

    They are from the price book of the cluster's operator if you may read it. Otherwise the providers are asked, with
    API keys from the environment (RUNPOD_API_KEY and so on); without a key only public prices are shown.
    The exit code is 1 if no offer fits.
    """
    models = tuple(known_gpu(gpu) for gpu in gpus)
    question = OfferQuestion(
        models, count, max_price, regions, spot, providers, talos=join == "talos", min_vram_gib=min_vram
    )
    form = OutputForm(how, limit, watch=watch, fold=join is None, by_gpu=group is not None)
    if not run(
        _answer(services.offers(providers, kubeconfig, context, direct=direct), question, form),
        BegunSteps("Nothing was bought."),
    ):
        raise SystemExit(NOTHING_FITS)


@dataclass(frozen=True, slots=True)
class OutputForm:
    """How the answer is printed."""

    how: str
    limit: int | None
    watch: bool
    fold: bool  # offers that cannot join are counted in one line
    by_gpu: bool  # one row for each model

    @property
    def for_people(self) -> bool:
        return self.how in {"table", "wide"}

    @property
    def rows(self) -> int:
        """How many to print; 0: all. With --watch the table and its footer fit on the screen."""
        if self.limit is not None or not self.for_people:
            return self.limit or 0
        return min(SHOWN, max(get_terminal_size().lines - BELOW_ROWS, FEWEST)) if self.watch else SHOWN


async def _answer(
    opening: AbstractAsyncContextManager[OfferActions], question: OfferQuestion, form: OutputForm
) -> bool:
    async with opening as market:
        while True:
            with waiting("asking for offers …"):
                answer = advised(await market.look(question), question)
            if form.watch and form.for_people:
                click.clear()
            _print(answer, form)
            if not form.watch:
                return bool(answer.rows)
            await asyncio.sleep(LOOK_EVERY)


def _print(answer: OfferAnswer, form: OutputForm) -> None:
    rows, notes, limit = answer.rows, answer.notes, form.rows
    if form.by_gpu:
        _print_models(answer, form)
    elif form.how not in {"table", "wide"}:
        listed = rows[:limit] if limit else rows
        made = offer_list(listed, notes)
        write_rows(made, made["items"], [row.name for row in listed], form.how)
    else:
        width, wide = terminal_width(), form.how == "wide"
        shown, notes = folded(rows, notes) if form.fold else (rows, notes)
        show(render(shown, notes, width, wide=wide, limit=limit), UNBOUNDED if wide else width)


def _print_models(answer: OfferAnswer, form: OutputForm) -> None:
    rows, notes = folded(answer.rows, answer.notes) if form.fold else (answer.rows, answer.notes)
    models = models_of(rows)[: form.limit or None]
    if form.how not in {"table", "wide"}:
        made = gpu_price_list(models)
        write_rows(made, made["items"], [model.gpu for model in models], form.how)
    else:
        width = terminal_width()
        show(render_models(models, notes, width), width)


def advised(answer: OfferAnswer, question: OfferQuestion) -> OfferAnswer:
    """With one next command, unless the answer has one already."""
    if answer.notes.next_command:
        return answer
    return replace(answer, notes=replace(answer.notes, next_command=next_command(answer, question)))


def next_command(answer: OfferAnswer, question: OfferQuestion) -> str:
    """Loosen the filter that left no offer; else show what can join; else check the API keys."""
    if not answer.rows:
        looser = _looser(question)
        return f"tgp offers{looser}" if question != OfferQuestion() else "tgp check"
    if not question.talos and all(row.boot is BootMode.CONTAINER for row in answer.rows):
        return f"tgp offers{_options(replace(question, talos=True, providers=()))}"
    return "tgp check"


def _looser(question: OfferQuestion) -> str:
    """The same question without its narrowest filters; the GPU model stays longest."""
    if question.max_hourly_microusd is not None:
        return _options(replace(question, max_hourly_microusd=None))
    if question.regions or question.providers or question.count or question.spot is not None or question.min_vram_gib:
        return _options(OfferQuestion(gpus=question.gpus, talos=question.talos))
    return _options(OfferQuestion(gpus=question.gpus)) if question.talos else ""


def _options(question: OfferQuestion) -> str:
    words = [f"--gpu {gpu}" for gpu in question.gpus]
    words += [f"--count {question.count}"] if question.count else []
    words += [f"--region {region}" for region in question.regions]
    words += [] if question.spot is None else ["--spot" if question.spot else "--no-spot"]
    words += [f"--provider {provider}" for provider in question.providers]
    words += [f"--min-vram {question.min_vram_gib}"] if question.min_vram_gib else []
    words += ["--join talos"] if question.talos else []
    return "".join(f" {word}" for word in words)
