"""`tgp offers`: what can be rented right now. It asks, and never buys."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from shutil import get_terminal_size
from typing import Protocol

import click

from tgp.core.model.offer import BootMode
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.surfaces.cli.breakeven import known_gpu
from tgp.surfaces.cli.offers_view import SHOWN, Notes, OfferRow, as_document, render
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


@dataclass(frozen=True, slots=True)
class Answer:
    rows: tuple[OfferRow, ...]  # best first
    notes: Notes


class Market(Protocol):
    async def look(self, question: Question) -> Answer: ...


class Hallway(Protocol):
    """What the hall hands to this command: the market, for as long as the block lasts."""

    def market(self, providers: tuple[str, ...]) -> AbstractAsyncContextManager[Market]:
        """Of the named providers; of all when none is named."""
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
@click.option("--join", type=click.Choice(["talos"]), help="Only what could become a node of a Talos cluster.")
@click.option("--limit", type=click.IntRange(0), help=f"The best so many; 0: all. Default: {SHOWN} in a table.")
@click.option("-o", "--output", "how", type=click.Choice(OUTPUTS), default="table", show_default=True)
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
    join: str | None,
    limit: int | None,
    how: str,
    watch: bool,
) -> None:
    """Show what can be rented right now, and how sure that is. Nothing is bought.

    Keys are taken from the environment (RUNPOD_API_KEY and so on); without a key a provider shows what is public.
    Ends with 1 where nothing fits.
    """
    models = tuple(known_gpu(gpu) for gpu in gpus)
    question = Question(models, count, max_price, regions, spot, providers, talos=join is not None)
    try:
        found = asyncio.run(_answer(hallway, question, how, limit, watch=watch))
    except KeyboardInterrupt:
        if not watch:
            raise
        return  # whoever watches ends it so
    if not found:
        raise SystemExit(NOTHING_FITS)


async def _answer(hallway: Hallway, question: Question, how: str, limit: int | None, *, watch: bool) -> bool:
    async with hallway.market(question.providers) as market:
        while True:
            with waiting("asking the providers …"):
                answer = advised(await market.look(question), question)
            if watch and how in {"table", "wide"}:
                click.clear()
            _print(answer, how, _fitting(limit, how, watch=watch))
            if not watch:
                return bool(answer.rows)
            await asyncio.sleep(LOOK_EVERY)


def _fitting(limit: int | None, how: str, *, watch: bool) -> int:
    """How many rows to print; 0: all. A table that is watched stays on the screen, with what is said below it."""
    if limit is not None or how not in {"table", "wide"}:
        return limit or 0
    return min(SHOWN, max(get_terminal_size().lines - BELOW_ROWS, FEWEST)) if watch else SHOWN


def _print(answer: Answer, how: str, limit: int) -> None:
    rows = answer.rows[:limit] if limit else answer.rows
    if how in {"json", "yaml"}:
        write(as_document(rows, answer.notes), how)
    elif how == "name":
        for row in rows:
            click.echo(row.name)
    else:
        width, wide = terminal_width(), how == "wide"
        show(render(answer.rows, answer.notes, width, wide=wide, limit=limit), UNBOUNDED if wide else width)


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
    if question.regions or question.providers or question.count or question.spot is not None:
        return _options(Question(gpus=question.gpus, talos=question.talos))
    return _options(Question(gpus=question.gpus)) if question.talos else ""


def _options(question: Question) -> str:
    words = [f"--gpu {gpu}" for gpu in question.gpus]
    words += [f"--count {question.count}"] if question.count else []
    words += [f"--region {region}" for region in question.regions]
    words += [] if question.spot is None else ["--spot" if question.spot else "--no-spot"]
    words += [f"--provider {provider}" for provider in question.providers]
    words += ["--join talos"] if question.talos else []
    return "".join(f" {word}" for word in words)
