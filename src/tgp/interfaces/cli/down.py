"""`tgp down`: terminate every machine of this cluster, and prove it by asking the providers."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

import click
from rich.console import Console, RenderableType
from rich.status import Status

from tgp.api.field_error import Invalid
from tgp.api.values import duration, go_duration
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.hold import new_hold
from tgp.core.model.money import dollars
from tgp.core.model.presence import AccountProblem
from tgp.core.model.text import plain
from tgp.core.reports.doctor import DoctorProblem, findings
from tgp.core.reports.machine_costs import MachineCost, hourly_total, lives, machine_costs, unsettled
from tgp.core.reports.pending_purchases import written_again
from tgp.interfaces.cli.cluster_options import cluster_options, document_output
from tgp.interfaces.cli.confirm import confirmed, interactive, typed
from tgp.interfaces.cli.context import CliServices, ClusterActions
from tgp.interfaces.cli.down_view import plan, remaining, render
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.output import show, terminal_width, waiting, write
from tgp.ports.cluster import ClusterError
from tgp.ports.http import HttpError
from tgp.services.confirmed import Confirmed
from tgp.services.documents.down import TeardownOutcome, blind, down_report, exit_code

REASON = "tgp down"
LOOK_EVERY = 10.0  # seconds between looks at the providers
LONGEST_AFTER = timedelta(hours=24)
DIRECT_LASTS = timedelta(minutes=10)  # after the first termination that was sent from here
FEWEST_LISTS = 2  # that show nothing, a listing lag apart

KEYLESS = "an API key is missing, so not every provider could be asked"
NOT_BEGUN = "Purchases were not paused, and nothing was deleted or terminated."


def _length(_ctx: click.Context, _param: click.Parameter, value: str) -> timedelta:
    try:
        length = duration(value, "")
    except Invalid:
        raise click.BadParameter(f"{value!r} is not a duration: write 10m.") from None
    if length > LONGEST_AFTER:
        raise click.BadParameter(f"{value} is longer than {go_duration(LONGEST_AFTER)}, the most that is allowed.")
    return length


@click.command()
@click.option("--yes", is_flag=True, help="Skip every question, also the one before machines are terminated directly.")
@click.option("--direct", is_flag=True, help="Terminate the machines from here at once, not through the operator.")
@click.option(
    "--direct-after",
    default="10m",
    show_default=True,
    callback=_length,
    metavar="DURATION",
    help="If the operator has not finished by then, offer to terminate the machines from here.",
)
@document_output
@cluster_options
@click.pass_obj
def down(
    services: CliServices,
    *,
    yes: bool,
    direct: bool,
    direct_after: timedelta,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Terminate every machine of this cluster, prove it, and print the last bill.

    Purchases are paused first, then every GPURequest is deleted, and the providers are asked until they list nothing.
    The exit code is 0 only when that was seen. Purchases stay paused until `tgp release`.
    """
    options = DownOptions(0.0 if direct else direct_after.total_seconds(), yes)
    begun = BegunSteps(NOT_BEGUN)
    outcome = run(_down(services, (kubeconfig, context, namespace), options, how, begun), begun)
    if how == "table":
        width = terminal_width()
        show(render(outcome, width), width)
    else:
        write(down_report(outcome), how)
    raise SystemExit(exit_code(outcome))


@dataclass(frozen=True, slots=True)
class DownOptions:
    """The options of the command line."""

    direct_after: float  # seconds
    yes: bool


async def _down(
    services: CliServices, where: tuple[str, str, str], options: DownOptions, how: str, begun: BegunSteps
) -> TeardownOutcome:
    async with services.cluster(*where) as cluster:
        with waiting("asking the providers …"):
            inventory = await cluster.inventory()
        if how == "table" or not options.yes:
            width = terminal_width()
            (show if how == "table" else _aside)(plan(cluster.title, inventory, width), width)
        _agree(cluster.title, options)
        with _printer() as printer:
            return await Teardown(cluster, inventory, options, printer, begun).take()


def _agree(title: str, options: DownOptions) -> None:
    if not typed(f"Type the cluster's name ({title}) to terminate everything", title, yes=options.yes):
        hint = "" if interactive() else " Without a terminal, add --yes."
        raise click.UsageError(f"Nothing was changed.{hint}")


def _aside(renderable: RenderableType, width: int) -> None:
    """To standard error: standard output carries the document for a program."""
    Console(width=width, highlight=False, stderr=True).print(renderable)


class ProgressPrinter(Protocol):
    def say(self, words: str) -> None: ...

    def hush(self) -> AbstractContextManager[None]:
        """Nothing moves on the screen meanwhile: the user is answering a question."""
        ...


class LinePrinter:
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
def _printer() -> Iterator[ProgressPrinter]:
    if not sys.stderr.isatty():
        yield LinePrinter()
        return
    with Console(stderr=True).status("…", spinner="dots") as status:
        yield Spinner(status)


class Teardown:
    """From paused purchases to no machine. Every wait has a bound, so it ends."""

    def __init__(
        self,
        cluster: ClusterActions,
        inventory: ClusterInventory,
        options: DownOptions,
        printer: ProgressPrinter,
        begun: BegunSteps,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._printer = printer
        self._begun = begun
        self._deleted: set[str] = set()
        self._ended: set[str] = set()
        self._inventory = inventory
        self._again = written_again(inventory)
        self._seen: dict[str, MachineCost] = {}
        self._said = ""
        self._clear_since: float | None = None  # loop time of the first look in a row that found nothing
        self._clear_looks = 0
        self._troubles: dict[str, str] = {}
        self._note(inventory)

    async def take(self) -> TeardownOutcome:
        """Pods that a budget holds are freed last: no machine is left that they ran on."""
        outcome = await self._terminate()
        return replace(outcome, freed=await self._free())

    async def _free(self) -> int:
        freed = 0
        for pod in self._inventory.held_pods:
            try:
                await self._cluster.free_pod(pod)
            except (ClusterError, HttpError):
                continue  # the operator has counted it meanwhile, or tgp doctor shows it
            freed += 1
        return freed

    async def _terminate(self) -> TeardownOutcome:
        self._note_begun()
        if self._inventory.hold is None:
            await self._cluster.hold(
                new_hold(REASON, self._inventory.now)
            )  # first, so that nothing is bought meanwhile
        loop = asyncio.get_running_loop()
        offer_at = loop.time() + self._options.direct_after
        ends_at: float | None = None
        agreement: Confirmed | None = None
        while True:
            if await self._looked() and self._clear(loop.time()):
                keyless = blind(self._inventory)
                return self._outcome(proven=not keyless, gave_up=KEYLESS if keyless else "")
            if ends_at is None and loop.time() >= offer_at:
                ends_at = loop.time() + DIRECT_LASTS.total_seconds()
                agreement = self._offer()
                if agreement is None and self._endable():
                    return self._outcome(gave_up=self._why("the operator did not terminate everything in time"))
            elif ends_at is not None and loop.time() >= ends_at:
                return self._outcome(
                    gave_up=self._why("the providers still listed machines, or did not answer, at the deadline")
                )
            if agreement is not None:
                await self._end(agreement)
            self._report()
            await asyncio.sleep(LOOK_EVERY)

    async def _looked(self) -> bool:
        """False: the API server did not answer; what was seen last is all there is."""
        try:
            await self._delete_all()
            self._inventory = await self._cluster.inventory()
        except (ClusterError, HttpError) as error:
            self._troubles["the API server"] = str(error)
            self._clear_since, self._clear_looks = None, 0
            return False
        self._troubles.pop("the API server", None)
        self._note(self._inventory)
        return True

    async def _delete_all(self) -> None:
        """On every round, because a controller may create new ones meanwhile. Ended requests are left as they are."""
        for record in self._inventory.requests:
            if lives(record) and not record.deleting:
                self._deleted.add(str(record.key))
                self._note_begun()
                await self._cluster.delete_request(record)

    def _note(self, inventory: ClusterInventory) -> None:
        """Remember every machine at its latest cost, for the bill."""
        for holding in machine_costs(inventory):
            if holding.instance is not None:
                self._seen.pop(holding.token, None)  # known by its record alone until now
                self._seen[f"{holding.token}/{holding.instance.id}"] = holding
            elif not any(key.startswith(holding.token) for key in self._seen):
                self._seen[holding.token] = holding

    def _clear(self, now: float) -> bool:
        """Every provider that can be asked lists nothing; twice, as far apart as the slowest list lags.

        A missing API key is not waited for: waiting does not add it. The answer names it.
        """
        inventory = self._inventory
        silent = any(one.trouble is not AccountProblem.CREDENTIALS_MISSING for one in blind(inventory))
        if machine_costs(inventory) or silent or self._account_changed() or any(True for _ in unsettled(inventory)):
            self._clear_since, self._clear_looks = None, 0
            return False
        self._clear_since = now if self._clear_since is None else self._clear_since
        self._clear_looks += 1
        if not inventory.inspections:  # no provider to ask: no class, no API key, no machine
            return True
        lag = max(one.lag.total_seconds() for one in inventory.inspections)
        return self._clear_looks >= FEWEST_LISTS and now - self._clear_since >= lag

    def _account_changed(self) -> bool:
        """Does an open attempt's API key belong to another account now? Then its list proves nothing."""
        return any(finding.problem is DoctorProblem.ACCOUNT_CHANGED for finding in findings(self._inventory))

    def _endable(self) -> list[MachineCost]:
        return [one for one in machine_costs(self._inventory) if one.instance is not None]

    def _offer(self) -> Confirmed | None:
        ends = self._endable()
        what = "the machine" if len(ends) == 1 else f"the {len(ends)} machines"
        question = f"Terminate {what} left from here ({dollars(hourly_total(ends))} an hour)?"
        places = [(one.access, one.instance.id) for one in ends if one.instance is not None]
        with self._printer.hush():
            return confirmed(self._inventory.cluster, places, question, yes=self._options.yes)

    async def _end(self, agreement: Confirmed) -> None:
        for one in self._endable():
            assert one.instance is not None, "only a listed machine can be terminated"
            if (one.access, one.instance.id) in agreement.machines:
                self._ended.add(one.name)
                self._note_begun()
                try:
                    await self._cluster.end(one.access, one.instance, agreement)
                except (CloudError, TimeoutError) as error:
                    self._troubles[one.name] = str(error) or "no answer"

    def _note_begun(self) -> None:
        """What Ctrl-C would leave behind from here on."""
        steps = ["purchases are paused until tgp release"]
        steps += (
            [f"{_many(len(self._deleted), 'request')} deleted, whose machines the operator terminates"]
            if self._deleted
            else []
        )
        steps += [f"{_many(len(self._ended), 'machine')} asked to terminate"] if self._ended else []
        self._begun.words = (
            f"Started: {', '.join(steps)}. Whether every machine is gone is not proven: tgp doctor shows what runs."
        )

    def _why(self, words: str) -> str:
        troubles = "; ".join(f"{name}: {why}" for name, why in sorted(self._troubles.items()))
        return f"{words} ({troubles})" if troubles else words

    def _report(self) -> None:
        words = remaining(self._inventory)
        if words != self._said:
            self._said = words
            self._printer.say(words)

    def _outcome(self, *, proven: bool = False, gave_up: str = "") -> TeardownOutcome:
        bill = tuple(sorted(self._seen.values(), key=lambda one: (one.name, one.place)))
        return TeardownOutcome(self._cluster.title, self._inventory, proven, bill, gave_up, self._again)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
