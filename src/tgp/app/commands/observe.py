"""`tgp observe`: the same operator against a real cluster, with every way to change anything closed.

Three doors are shut one behind the other: the settings take no Lease and no purchase, the writer drops every write,
and the way to the API server lets nothing pass that is not a question.
"""

import asyncio
import shlex
import socket
from dataclasses import dataclass
from datetime import timedelta

import click

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.observing import ObservingCluster
from tgp.adapters.resolver import SystemResolver
from tgp.app.connect import Connection, connect
from tgp.app.dialling import switchboard
from tgp.app.operator import Operator, Outside
from tgp.app.program import program
from tgp.app.settings import Settings
from tgp.app.view.doors import ReadOnlyHttp
from tgp.app.view.ears import Ears
from tgp.app.view.facts import Unheard, turns_of
from tgp.app.view.scene import OURS_ONLY, Frame, Gatherer, Sources
from tgp.app.view.show import Length, Work, drawable, end_after, end_on_signals, play, view_for
from tgp.app.view.wares import stall
from tgp.ports.http import Dial
from tgp.surfaces.terminal.scene import Scene
from tgp.surfaces.terminal.summary import Outcome, summary

PROMISE = "observing: nothing is bought, nothing is written"


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for on the command line."""

    kubeconfig: str
    context: str
    namespace: str
    lasting: timedelta | None  # None: until somebody ends it
    lines: bool

    @property
    def kubectl(self) -> str:
        """The command that looks at the same cluster."""
        words = ["kubectl"]
        words += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        words += ["--context", self.context] if self.context else []
        return shlex.join(words)


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="kubeconfig file; else as kubectl finds one.")
@click.option("--context", default="", metavar="NAME", help="context of the kubeconfig; else the current one.")
@click.option(
    "--namespace", default="", metavar="NAME", help="the operator's namespace, where its Secrets are.  [tgp-system]"
)
@click.option("--for", "lasting", type=Length(), default=None, help="end by itself after that much time, such as 30s.")
@click.option("--lines", is_flag=True, help="one line for each change, rather than a live screen.")
def observe(kubeconfig: str, context: str, namespace: str, lasting: timedelta | None, lines: bool) -> None:
    """Watch a real cluster: buy nothing, write nothing.

    Shows what the operator sees there and what it thinks of it. The rights to get, list and watch are enough; what
    may not be read is said. Ctrl-C ends.
    """
    try:
        asyncio.run(_observe(Wish(kubeconfig, context, namespace, lasting, lines)))
    except ConfigInvalid as error:
        raise click.ClickException(str(error)) from error


async def _observe(wish: Wish) -> None:
    async with connect(wish.kubeconfig, wish.context) as connection, switchboard(connection.clock) as dial:
        onlooker = Onlooker(connection, wish, dial)
        with onlooker.ears.listening():
            await onlooker.look()
        onlooker.say_goodbye()


class Onlooker:
    """The operator that only looks, and the view of it."""

    def __init__(self, connection: Connection, wish: Wish, dial: Dial) -> None:
        self._wish = wish
        self._clock = connection.clock
        self._server = connection.server
        self._http = ReadOnlyHttp(connection.http)
        settings = Settings(observe=True, leader_elect=False, namespace=wish.namespace, listen="")
        outside = Outside(
            self._http,
            connection.clock,
            connection.entropy,
            socket.gethostname(),
            namespace=connection.namespace,
            dial=dial,
            resolver=SystemResolver(),
            api_server=connection.addresses,
        )
        self._worker = Operator(settings, outside)
        sources = Sources(self._http, connection.clock, connection.entropy, Unheard())
        self._gatherer = Gatherer(sources, shared=self._worker.reflectors, event_selector=OURS_ONLY)
        # Lines tell each verdict once already; a screen tells it as an event as well.
        self.ears = Ears(connection.clock, conditions=drawable(lines=wish.lines))
        self._began_at = connection.clock.boottime()

    async def look(self) -> None:
        ended = asyncio.Event()
        end_on_signals(ended)
        click.echo(f"{PROMISE}. Looking at {self._server}; Ctrl-C ends.")
        view = view_for(self._scene, asyncio.sleep, lines=self._wish.lines, end=ended.set)
        work = Work(self._worker.run, self._worker.stop)
        await play(ended, work, view, self._gatherer.run(), end_after(self._wish.lasting, ended, asyncio.sleep))

    def say_goodbye(self) -> None:
        scene = self._scene()
        passed = timedelta(seconds=self._clock.boottime() - self._began_at)
        parting = f"Nothing was bought and nothing was written: {self._http.refused} changing calls were attempted."
        following = (
            (f"{self._wish.kubectl} get tgp -A", "the same objects, by kubectl"),
            (f"{program()} operator --help", "run it for real"),
        )
        for line in summary(scene, Outcome(passed, passed, parting, following)):
            click.echo(line)
        if not self._gatherer.reached:
            raise click.ClickException(f"{self._server} never answered a question")

    def _scene(self) -> Scene:
        turns = turns_of(self._worker.metrics)
        frame = Frame(
            title=f"tgp observe {self._server}",
            pace=PROMISE,
            url=self._server,
            kubectl=self._wish.kubectl,
            stall=stall(self._worker.market, self._clock.now()),
            held=self._worker.held,
            operator={
                "operator": "only looks",
                "turns": str(turns.taken),
                "failed": str(turns.failed),
                "would write": str(self._held_back()),
            },
            heard=tuple(self.ears.heard),
        )
        return self._gatherer.scene(frame)

    def _held_back(self) -> int:
        writer = self._worker.writer
        return writer.dropped if isinstance(writer, ObservingCluster) else 0
