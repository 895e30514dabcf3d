"""`tgp down`: give everything of this cluster back, and prove it by asking the providers."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import click
from rich.console import Console, RenderableType
from rich.status import Status

from tgp.api.problem import Invalid
from tgp.api.values import duration, go_duration
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.hold import new_hold
from tgp.core.model.presence import Trouble
from tgp.core.model.survey import Survey
from tgp.core.rules.buyers import written_again
from tgp.core.rules.checkup import Problem, findings
from tgp.core.rules.holdings import Holding, holdings, hourly_total, lives, unsettled
from tgp.ports.cluster import ClusterError
from tgp.ports.http import HttpError
from tgp.surfaces.cli.confirming import Confirmed, confirmed, interactive, typed
from tgp.surfaces.cli.down_view import Outcome, as_document, blind, exit_code, plan, remaining, render
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.output import dollars, show, terminal_width, waiting, write
from tgp.surfaces.cli.premises import Hallway, Premises, cluster_options
from tgp.surfaces.terminal.scene import plain

REASON = "tgp down"
LOOK_EVERY = 10.0  # seconds between looks at the providers
LONGEST_AFTER = timedelta(hours=24)
DIRECT_LASTS = timedelta(minutes=10)  # from the moment that ends were asked for here
FEWEST_LISTS = 2  # that show nothing, a listing lag apart

KEYLESS = "a key is missing, so not everybody could be asked"
NOT_BEGUN = "Nothing was held, deleted or terminated."


def _length(_ctx: click.Context, _param: click.Parameter, value: str) -> timedelta:
    try:
        length = duration(value, "")
    except Invalid:
        raise click.BadParameter(f"{value!r} is no length: write 10m.") from None
    if length > LONGEST_AFTER:
        raise click.BadParameter(f"at most {go_duration(LONGEST_AFTER)}.")
    return length


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask, here or before machines are ended directly.")
@click.option("--direct", is_flag=True, help="End the machines from here at once, rather than by the operator.")
@click.option(
    "--direct-after",
    default="10m",
    show_default=True,
    callback=_length,
    help="When the operator has not done it by then, offer to end them from here.",
)
@click.option("-o", "--output", "how", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@cluster_options
@click.pass_obj
def down(
    hallway: Hallway,
    *,
    yes: bool,
    direct: bool,
    direct_after: timedelta,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Give everything of this cluster back, prove it, and print the last bill.

    Purchases are held first, then every GPURequest is deleted, and the providers are asked until they list nothing.
    Ends with 0 only when that was seen. The hold stays: `tgp release` takes it off.
    """
    wish = Wish(0.0 if direct else direct_after.total_seconds(), yes)
    begun = Begun(NOT_BEGUN)
    outcome = run(_down(hallway, (kubeconfig, context, namespace), wish, how, begun), begun)
    if how == "table":
        width = terminal_width()
        show(render(outcome, width), width)
    else:
        write(as_document(outcome), how)
    raise SystemExit(exit_code(outcome))


@dataclass(frozen=True, slots=True)
class Wish:
    """What was said on the command line."""

    direct_after: float  # seconds
    yes: bool


async def _down(hallway: Hallway, where: tuple[str, str, str], wish: Wish, how: str, begun: Begun) -> Outcome:
    async with hallway.premises(*where) as premises:
        with waiting("asking the providers …"):
            survey = await premises.survey()
        if how == "table" or not wish.yes:
            width = terminal_width()
            (show if how == "table" else _aside)(plan(premises.title, survey, width), width)
        _agree(premises.title, wish)
        with _telling() as teller:
            return await Farewell(premises, survey, wish, teller, begun).take()


def _agree(title: str, wish: Wish) -> None:
    if not typed(f"Type the cluster's name ({title}) to give everything back", title, yes=wish.yes):
        hint = "" if interactive() else " Where nobody can be asked, say --yes."
        raise click.UsageError(f"nothing was done.{hint}")


def _aside(renderable: RenderableType, width: int) -> None:
    """For people, where the standard output is for a program."""
    Console(width=width, highlight=False, stderr=True).print(renderable)


class Teller(Protocol):
    def say(self, words: str) -> None: ...

    def hush(self) -> AbstractContextManager[None]:
        """Nothing moves on the screen meanwhile: somebody is asked something."""
        ...


class Lines:
    """One line for each change."""

    def say(self, words: str) -> None:
        click.echo(plain(words), err=True)

    def hush(self) -> AbstractContextManager[None]:
        return nullcontext()


class Spinner:
    """One line that changes, on a terminal."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def say(self, words: str) -> None:
        self._status.update(plain(words))

    @contextmanager
    def hush(self) -> Iterator[None]:
        self._status.stop()
        yield
        self._status.start()


@contextmanager
def _telling() -> Iterator[Teller]:
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Console(stderr=True).status("…", spinner="dots") as status:
        yield Spinner(status)


class Farewell:
    """One walk from a held cluster to an empty one. It ends: each wait has a bound."""

    def __init__(self, premises: Premises, survey: Survey, wish: Wish, teller: Teller, begun: Begun) -> None:
        self._premises = premises
        self._wish = wish
        self._teller = teller
        self._begun = begun
        self._deleted: set[str] = set()
        self._ended: set[str] = set()
        self._survey = survey
        self._again = written_again(survey)
        self._seen: dict[str, Holding] = {}
        self._said = ""
        self._clear_since: float | None = None  # loop time of the first look in a row that found nothing
        self._clear_looks = 0
        self._troubles: dict[str, str] = {}
        self._note(survey)

    async def take(self) -> Outcome:
        self._note_begun()
        if self._survey.hold is None:
            await self._premises.hold(new_hold(REASON, self._survey.now))  # first, so that nothing is bought meanwhile
        loop = asyncio.get_running_loop()
        offer_at = loop.time() + self._wish.direct_after
        ends_at: float | None = None
        agreement: Confirmed | None = None
        while True:
            if await self._looked() and self._clear(loop.time()):
                keyless = blind(self._survey)
                return self._outcome(proven=not keyless, gave_up=KEYLESS if keyless else "")
            if ends_at is None and loop.time() >= offer_at:
                ends_at = loop.time() + DIRECT_LASTS.total_seconds()
                agreement = self._offer()
                if agreement is None and self._endable():
                    return self._outcome(gave_up=self._why("the operator did not give everything back in time"))
            elif ends_at is not None and loop.time() >= ends_at:
                return self._outcome(gave_up=self._why("there was no proof in time"))
            if agreement is not None:
                await self._end(agreement)
            self._tell()
            await asyncio.sleep(LOOK_EVERY)

    async def _looked(self) -> bool:
        """False: the API server did not answer; what was seen last is all there is."""
        try:
            await self._delete_all()
            self._survey = await self._premises.survey()
        except (ClusterError, HttpError) as error:
            self._troubles["the API server"] = str(error)
            self._clear_since, self._clear_looks = None, 0
            return False
        self._troubles.pop("the API server", None)
        self._note(self._survey)
        return True

    async def _delete_all(self) -> None:
        """Each time: whoever wrote another one meanwhile wanted a machine. What has ended is left as it is."""
        for record in self._survey.requests:
            if lives(record) and not record.deleting:
                self._deleted.add(str(record.key))
                self._note_begun()
                await self._premises.delete_request(record)

    def _note(self, survey: Survey) -> None:
        """Remember every machine at its latest cost: the bill outlives it."""
        for holding in holdings(survey):
            if holding.instance is not None:
                self._seen.pop(holding.token, None)  # known by its record alone until now
                self._seen[f"{holding.token}/{holding.instance.id}"] = holding
            elif not any(key.startswith(holding.token) for key in self._seen):
                self._seen[holding.token] = holding

    def _clear(self, now: float) -> bool:
        """Everybody who can be asked lists nothing; twice, as far apart as the slowest list lags.

        A key that is not there is not waited for: that is no silence that passes, and the answer says so.
        """
        survey = self._survey
        silent = any(one.trouble is not Trouble.CREDENTIALS_MISSING for one in blind(survey))
        if holdings(survey) or silent or self._strangers() or any(True for _ in unsettled(survey)):
            self._clear_since, self._clear_looks = None, 0
            return False
        self._clear_since = now if self._clear_since is None else self._clear_since
        self._clear_looks += 1
        if not survey.inspections:  # there is nobody to ask: no class, no key, no machine
            return True
        lag = max(one.lag.total_seconds() for one in survey.inspections)
        return self._clear_looks >= FEWEST_LISTS and now - self._clear_since >= lag

    def _strangers(self) -> bool:
        """Does an open attempt's key belong to another account now? Then its list proves nothing."""
        return any(finding.problem is Problem.ACCOUNT_CHANGED for finding in findings(self._survey))

    def _endable(self) -> list[Holding]:
        return [one for one in holdings(self._survey) if one.instance is not None]

    def _offer(self) -> Confirmed | None:
        ends = self._endable()
        what = "the machine" if len(ends) == 1 else f"the {len(ends)} machines"
        question = f"End {what} left from here (${dollars(hourly_total(ends))} an hour)?"
        places = [(one.till, one.instance.id) for one in ends if one.instance is not None]
        with self._teller.hush():
            return confirmed(self._survey.cluster, places, question, yes=self._wish.yes)

    async def _end(self, agreement: Confirmed) -> None:
        for one in self._endable():
            assert one.instance is not None, "only what is listed can be ended"
            if (one.till, one.instance.id) in agreement.machines:
                self._ended.add(one.name)
                self._note_begun()
                try:
                    await self._premises.end(one.till, one.instance, agreement)
                except (CloudError, TimeoutError) as error:
                    self._troubles[one.name] = str(error) or "no answer"

    def _note_begun(self) -> None:
        """What Ctrl-C would leave behind from here on."""
        steps = ["purchases are held until tgp release"]
        steps += (
            [f"{_many(len(self._deleted), 'request')} deleted, which the operator finishes"] if self._deleted else []
        )
        steps += [f"{_many(len(self._ended), 'machine')} asked to terminate"] if self._ended else []
        self._begun.words = (
            f"Begun: {', '.join(steps)}. That everything is gone is not proven: tgp doctor shows what runs."
        )

    def _why(self, words: str) -> str:
        troubles = "; ".join(f"{name}: {why}" for name, why in sorted(self._troubles.items()))
        return f"{words} ({troubles})" if troubles else words

    def _tell(self) -> None:
        words = remaining(self._survey)
        if words != self._said:
            self._said = words
            self._teller.say(words)

    def _outcome(self, *, proven: bool = False, gave_up: str = "") -> Outcome:
        bill = tuple(sorted(self._seen.values(), key=lambda one: (one.name, one.place)))
        return Outcome(self._premises.title, self._survey, proven, bill, gave_up, self._again)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
