"""`tgp observe`: the same operator against a real cluster, read-only.

Three guards ensure that: the settings disable the Lease and purchases, the writer drops every write, and the HTTP
client for the API server refuses every call that changes something.
"""

import asyncio
import shlex
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import click

from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.connect import Connection, connect
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.adapters.resolver import SystemResolver
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.program import program
from tgp.app.settings import Settings
from tgp.app.view.gatherer import OURS_ONLY, Frame, Gatherer, Sources
from tgp.app.view.http_guards import ReadOnlyHttp
from tgp.app.view.live_view import Length, Work, drawable, end_after, end_on_signals, play, view_for
from tgp.app.view.log_capture import LogCapture
from tgp.app.view.price_ticker import machine_prices, market_summary
from tgp.app.view.stats import NoJournal, reconcile_stats_of
from tgp.interfaces.terminal.snapshot import Snapshot
from tgp.interfaces.terminal.summary import DemoOutcome, summary
from tgp.ports.http import Call, HttpError, HttpFactory
from tgp.services.cluster_reads import ServerTime

PROMISE = "observing: nothing is bought, nothing is written"
TIME_ASKED_EVERY = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class ObserveOptions:
    """The options of the command line."""

    kubeconfig: str
    context: str
    namespace: str
    lasting: timedelta | None  # None: until the user ends it
    lines: bool

    @property
    def kubectl(self) -> str:
        """Kubectl for the same cluster."""
        words = ["kubectl"]
        words += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        words += ["--context", self.context] if self.context else []
        return shlex.join(words)


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="kubeconfig file; default: as for kubectl.")
@click.option("--context", default="", metavar="NAME", help="context of the kubeconfig; else the current one.")
@click.option(
    "--operator-namespace",
    "namespace",
    default="",
    metavar="NAME",
    help="where the operator and its Secrets are.  [tgp-system]",
)
@click.option("--for", "lasting", type=Length(), default=None, help="end after this much time, such as 30s.")
@click.option("--lines", is_flag=True, help="print one line for each change instead of a live screen.")
def observe(kubeconfig: str, context: str, namespace: str, lasting: timedelta | None, lines: bool) -> None:
    """Show a real cluster live: buy nothing, write nothing.

    Shows what the operator sees and what it would do. The rights to get, list and watch are enough; what may not be
    read is reported. Ctrl-C ends.
    """
    try:
        asyncio.run(_observe(ObserveOptions(kubeconfig, context, namespace, lasting, lines)))
    except ConfigInvalid as error:
        raise click.ClickException(str(error)) from error


async def _observe(options: ObserveOptions) -> None:
    async with connect(options.kubeconfig, options.context) as connection, http_client_pool(connection.clock) as dial:
        session = ObserveSession(connection, options, dial)
        with session.log_capture.capturing():
            await session.run()
        session.print_summary()


class ObserveSession:
    """The read-only operator, and the view of it."""

    def __init__(self, connection: Connection, options: ObserveOptions, dial: HttpFactory) -> None:
        self._options = options
        self._clock = connection.clock
        self._server = connection.server
        self._server_time = ServerTime(connection.http, connection.clock)
        self._http = ReadOnlyHttp(self._server_time)
        settings = Settings(observe=True, leader_elect=False, namespace=options.namespace, listen="")
        environment = Environment(
            self._http,
            connection.clock,
            connection.entropy,
            socket.gethostname(),
            namespace=connection.namespace,
            compute=connection.compute,
            dial=dial,
            resolver=SystemResolver(),
            api_server=connection.addresses,
        )
        self._worker = Operator(settings, environment)
        sources = Sources(self._http, self._server_time.now, connection.entropy, NoJournal())
        self._gatherer = Gatherer(sources, shared=self._worker.caches, event_selector=OURS_ONLY)
        # Lines print each state change already; a screen shows it as an event, too.
        self.log_capture = LogCapture(connection.clock, conditions=drawable(lines=options.lines))
        self._began_at = connection.clock.boottime()

    async def run(self) -> None:
        ended = asyncio.Event()
        end_on_signals(ended)
        click.echo(f"{PROMISE}. Observing {self._server}; Ctrl-C ends.")
        view = view_for(self.snapshot, asyncio.sleep, lines=self._options.lines, end=ended.set)
        work = Work(self._worker.run, self._worker.stop)
        ends = end_after(self._options.lasting, ended, asyncio.sleep)
        await play(ended, work, view, self._gatherer.run(), self._keep_time(), ends)

    def print_summary(self) -> None:
        snapshot = self.snapshot()
        passed = timedelta(seconds=self._clock.boottime() - self._began_at)
        parting = f"Nothing was bought or written: {self._http.refused} calls that change something were attempted."
        following = (
            (f"{self._options.kubectl} get tgp -A", "the same objects with kubectl"),
            (f"{program()} init", "your keys: a first class and pool; buys nothing"),
        )
        for line in summary(snapshot, DemoOutcome(passed, passed, parting, following)):
            click.echo(line)
        if not self._gatherer.reached:
            raise click.ClickException(f"{self._server} never answered.")

    async def _keep_time(self) -> None:
        """A watch has one date, that of its beginning: a demo's clock would be far ahead of it."""
        while True:
            with suppress(HttpError):  # said by those who list
                await self._http.send(Call("GET", "/version"))
            await asyncio.sleep(TIME_ASKED_EVERY)

    def snapshot(self) -> Snapshot:
        reconciles = reconcile_stats_of(self._worker.metrics)
        frame = Frame(
            title=f"tgp observe {self._server}",
            pace=PROMISE,
            url=self._server,
            kubectl=self._options.kubectl,
            market=market_summary(self._worker.stores.market, self._clock.now()),
            machine_prices=machine_prices(self._worker.stores.market.book),
            held=self._worker.held,
            operator={
                "operator": "read-only",
                "reconciles": str(reconciles.taken),
                "failed": str(reconciles.failed),
                "would write": str(self._dropped_writes()),
            },
            log_rows=tuple(self.log_capture.rows),
        )
        return self._gatherer.snapshot(frame)

    def _dropped_writes(self) -> int:
        writer = self._worker.deps.cluster
        return writer.dropped if isinstance(writer, OperatorCluster) else 0
