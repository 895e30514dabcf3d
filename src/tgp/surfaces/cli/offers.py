"""`tgp offers`: what can be rented right now. It asks, and never buys."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from shutil import get_terminal_size
from typing import Protocol

import click

from tgp.core.model.offer import BootMode
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.surfaces.cli.breakeven import known_gpu, market_options
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.offers_by_gpu import models_document, models_of, render_models
from tgp.surfaces.cli.offers_view import SHOWN, Notes, OfferRow, as_document, folded, render
from tgp.surfaces.cli.output import UNBOUNDED, show, terminal_width, waiting, write

LOOK_EVERY = 5.0  # seconds between two frames of --watch; the book behind it has its own pace
OUTPUTS = ["table", "wide", "json", "yaml", "name"]
NOTHING_FITS = 1  # as grep ends
BELOW_ROWS = 12  # lines of a screen: heads, and the notes under a table
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to see; empty or None: no such rule."""

    gpus: tuple[str, ...] = ()
    count: int | None = None
    max_hourly_microusd: int | None = None
    regions: tuple[str, ...] = ()
    spot: bool | None = None  # None: both kinds
    providers: tuple[str, ...] = ()
    talos: bool = False  # only what could become a node of a Talos cluster
    min_vram_gib: int = 0  # of one GPU


@dataclass(frozen=True, slots=True)
class Answer:
    rows: tuple[OfferRow, ...]  # best first
    notes: Notes


class Market(Protocol):
    async def look(self, question: Question) -> Answer: ...


class Hallway(Protocol):
    """What the hall hands to this command: the market, for as long as the block lasts."""

    def market(self, providers: tuple[str, ...], kubeconfig: str, context: str) -> AbstractAsyncContextManager[Market]:
        """Of the named providers; of all when none is named. A pretend cluster's kubeconfig opens its own market."""
        ...


def _price(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else hourly_microusd(value.removeprefix("$"))
    except NotAPrice as error:
        raise click.BadParameter(f"{error}.") from error


@click.command()
@click.option("--gpu", "gpus", multiple=True, metavar="MODEL", help="Model or family: RTX4090, A100. Repeatable.")
@click.option("--count", type=click.IntRange(1, 64), help="Exactly so many GPUs in one machine.")
@click.option("--max-price", metavar="USD", callback=_price, help="For the whole machine, an hour.")
@click.option("--region", "regions", multiple=True, metavar="REGION", help="us, eu-west, … Repeatable.")
@click.option("--spot/--no-spot", default=None, help="Only spot, or only on-demand. Default: both.")
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only these. Repeatable.")
@click.option("--min-vram", type=click.IntRange(0, 1024), default=0, metavar="GIB", help="Memory of one GPU, at least.")
@click.option(
    "--join",
    type=click.Choice(["talos", "any"]),
    help="talos: only what could become a node; any: containers among the rows, too. Default: containers in one line.",
)
@click.option("--group-by", "group", type=click.Choice(["gpu"]), help="One row for each model.")
@click.option("--limit", type=click.IntRange(0), help=f"The best so many; 0: all. Default: {SHOWN} in a table.")
@click.option("-o", "--output", "how", type=click.Choice(OUTPUTS), default="table", show_default=True)
@market_options
@click.option("-w", "--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.pass_obj
def offers(
    hallway: Hallway,
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
    watch: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Show what can be rented right now, and how sure that is. Nothing is bought.

    Keys are taken from the environment (RUNPOD_API_KEY and so on); without a key a provider shows what is public.
    Ends with 1 where nothing fits.
    """
    models = tuple(known_gpu(gpu) for gpu in gpus)
    question = Question(
        models, count, max_price, regions, spot, providers, talos=join == "talos", min_vram_gib=min_vram
    )
    form = Form(how, limit, watch=watch, fold=join is None, by_gpu=group is not None)
    if not run(_answer(hallway.market(providers, kubeconfig, context), question, form), Begun("Nothing was bought.")):
        raise SystemExit(NOTHING_FITS)


@dataclass(frozen=True, slots=True)
class Form:
    """How it is shown."""

    how: str
    limit: int | None
    watch: bool
    fold: bool  # what cannot join in one line
    by_gpu: bool  # one row for each model

    @property
    def for_people(self) -> bool:
        return self.how in {"table", "wide"}

    @property
    def rows(self) -> int:
        """How many to print; 0: all. A table that is watched stays on the screen, with what is said below it."""
        if self.limit is not None or not self.for_people:
            return self.limit or 0
        return min(SHOWN, max(get_terminal_size().lines - BELOW_ROWS, FEWEST)) if self.watch else SHOWN


async def _answer(opening: AbstractAsyncContextManager[Market], question: Question, form: Form) -> bool:
    async with opening as market:
        while True:
            with waiting("asking the providers …"):
                answer = advised(await market.look(question), question)
            if form.watch and form.for_people:
                click.clear()
            _print(answer, form)
            if not form.watch:
                return bool(answer.rows)
            await asyncio.sleep(LOOK_EVERY)


def _print(answer: Answer, form: Form) -> None:
    rows, notes, limit = answer.rows, answer.notes, form.rows
    if form.by_gpu:
        _print_models(answer, form)
    elif form.how in {"json", "yaml"}:
        write(as_document(rows[:limit] if limit else rows, notes), form.how)
    elif form.how == "name":
        for row in rows[:limit] if limit else rows:
            click.echo(row.name)
    else:
        width, wide = terminal_width(), form.how == "wide"
        shown, notes = folded(rows, notes) if form.fold else (rows, notes)
        show(render(shown, notes, width, wide=wide, limit=limit), UNBOUNDED if wide else width)


def _print_models(answer: Answer, form: Form) -> None:
    rows, notes = folded(answer.rows, answer.notes) if form.fold else (answer.rows, answer.notes)
    models = models_of(rows)[: form.limit or None]
    if form.how in {"json", "yaml"}:
        write(models_document(models), form.how)
    elif form.how == "name":
        for model in models:
            click.echo(model.gpu)
    else:
        width = terminal_width()
        show(render_models(models, notes, width), width)


def advised(answer: Answer, question: Question) -> Answer:
    """With one next command, unless whoever looked knows a better one."""
    if answer.notes.next_command:
        return answer
    return replace(answer, notes=replace(answer.notes, next_command=next_command(answer, question)))


def next_command(answer: Answer, question: Question) -> str:
    """Loosen what leaves nothing; else see what can join; else see whether the keys would do."""
    if not answer.rows:
        looser = _looser(question)
        return f"tgp offers{looser}" if question != Question() else "tgp check"
    if not question.talos and all(row.boot is BootMode.CONTAINER for row in answer.rows):
        return f"tgp offers{_options(replace(question, talos=True, providers=()))}"
    return "tgp check"


def _looser(question: Question) -> str:
    """The same question without its narrowest rules; the GPU is what people want most."""
    if question.max_hourly_microusd is not None:
        return _options(replace(question, max_hourly_microusd=None))
    if question.regions or question.providers or question.count or question.spot is not None or question.min_vram_gib:
        return _options(Question(gpus=question.gpus, talos=question.talos))
    return _options(Question(gpus=question.gpus)) if question.talos else ""


def _options(question: Question) -> str:
    words = [f"--gpu {gpu}" for gpu in question.gpus]
    words += [f"--count {question.count}"] if question.count else []
    words += [f"--region {region}" for region in question.regions]
    words += [] if question.spot is None else ["--spot" if question.spot else "--no-spot"]
    words += [f"--provider {provider}" for provider in question.providers]
    words += [f"--min-vram {question.min_vram_gib}"] if question.min_vram_gib else []
    words += ["--join talos"] if question.talos else []
    return "".join(f" {word}" for word in words)
