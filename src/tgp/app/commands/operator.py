"""`tgp operator`: the operator in a pod, or from a terminal against a cluster."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.http.tls import ServingContext
from tgp.adapters.kube import reconcile_context
from tgp.adapters.kube.config_field import ClusterNotConfigured, ConfigInvalid
from tgp.adapters.kube.connect import Connection, connect
from tgp.adapters.kube.elector_watchdog import LEASE_LOST_EXIT_CODE, Watchdog
from tgp.adapters.resolver import SystemResolver
from tgp.adapters.telemetry import logs
from tgp.adapters.telemetry.redaction import Redactor
from tgp.app.cli_context import NotConnected
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.settings import TABLE, BadSetting, Settings, load
from tgp.core.model.facts import KindsInstalled, RightsMissing, StartNotChecked
from tgp.interfaces.health import MetricsPage, Probes
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Handler, HttpFactory
from tgp.ports.leadership import Fence, LeadershipLost
from tgp.services.startup import grant_commands, prepare

NO_CLUSTER = """.
Give the operator a cluster, in one of these ways:
  helm install tgp-operator deploy/charts/tgp-operator --namespace tgp-system --create-namespace
  docker run -v $HOME/.kube/config:/kubeconfig:ro -e KUBECONFIG=/kubeconfig …   (readable by user 65532)
  tgp operator --kubeconfig FILE"""

# Of HTTPS, which is open to every pod of the cluster. Every page is read by a request without a body.
LONGEST_REQUEST = 64 << 10  # bytes of a body
REQUEST_WITHIN = 10.0  # seconds
HANDSHAKE_WITHIN = 5.0  # seconds
MOST_CONNECTIONS = 256

if TYPE_CHECKING:
    from tgp.adapters.http.serve import Listening


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every setting as an option, documented from the one table."""
    for setting in reversed(TABLE):
        shown = f"  [default: {setting.shown_default}]" if setting.shown_default else ""
        command = click.option(
            setting.flag,
            setting.name,
            metavar=setting.metavar,
            is_flag=False,
            flag_value="true" if setting.kind is bool else None,
            default=None,
            help=f"{setting.doc}.  [{setting.variable}; {setting.key}]{shown}",
        )(command)
    return click.option(
        "--config", default=None, metavar="FILE", help="settings file (YAML); flags and environment win.  [TGP_CONFIG]"
    )(command)


def read_settings(config: str | None, flags: dict[str, Any]) -> Settings:
    """Flags, then environment, then the file; a wrong value ends the command with exit code 2 and names its source."""
    path = config or os.environ.get("TGP_CONFIG", "")
    try:
        return load(flags, os.environ, _document(path), path or "file")
    except BadSetting as error:
        raise click.UsageError(str(error)) from error


def _document(path: str) -> Any:
    if not path:
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(f"{path}: {error.strerror}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise BadSetting(f"{path}{where}: not readable as YAML: {error.problem or error.context}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path}: not readable as YAML: {str(error).splitlines()[0]}") from error


@click.command(context_settings={"show_default": False})
@with_settings
def operator(config: str | None, **flags: Any) -> None:
    """Run the operator in, or against, a cluster.

    Settings come from flags, then environment variables, then the file named by --config.
    """
    settings = read_settings(config, flags)
    redactor = Redactor()
    logs.set_up(settings.log_format, settings.log_level, bound=reconcile_context.bound, redact=redactor)
    try:
        asyncio.run(_run(settings, redactor))
    except ConfigInvalid as error:
        ways = NO_CLUSTER if isinstance(error, ClusterNotConfigured) else ""
        raise NotConnected(f"{error}{ways}") from error
    except CannotListen as error:
        raise click.ClickException(str(error)) from error


class CannotStart(click.ClickException):
    """Kinds, the namespace or rights are missing. The text lists all of them, with the commands that help."""

    exit_code = 3


class CannotListen(Exception):
    """The address for probes and metrics is taken. Another address would not help: the kubelet would not ask there."""


async def _run(settings: Settings, redactor: Redactor) -> None:
    async with (
        connect(settings.kubeconfig, settings.context) as connection,
        http_client_pool(connection.clock) as dial,
    ):
        tls = ServingContext()
        surroundings = environment(connection, dial, redactor)
        worker = Operator(settings, replace(surroundings, serve=lambda pair: tls.load(pair.certificate, pair.key)))
        await _check(connection, worker)
        async with AsyncExitStack() as open_ports:
            probes, metrics = Probes(worker.troubles).handle, MetricsPage(worker.metrics.page).handle
            for name, handler in (("listen", probes), ("metrics_listen", metrics)):
                if address := getattr(settings, name):
                    open_ports.push_async_callback((await _listen(address, handler, name)).stop)
            if worker.https is not None:
                https = await _listen(settings.https_listen, worker.https.gate.handle, "https_listen", tls)
                open_ports.push_async_callback(https.stop)
            stop_on_signals(worker.stop)
            await worker.run(settled=_freeze)


async def _check(connection: Connection, worker: Operator) -> None:
    """Before the start. An API server that does not answer is waited for later, as after any other start."""
    settings = worker.settings
    try:
        report = await prepare(
            connection.http, connection.cluster, worker.namespace, settings.lease_name, observe=settings.observe
        )
    except ClusterError as error:
        worker.journal.note(StartNotChecked(str(error)))
        return
    if report.installed:
        worker.journal.note(KindsInstalled(", ".join(report.installed)))
    if report.stops:
        raise CannotStart("\n".join(["the operator cannot run.", *report.lines()]))
    if report.rights:
        missing = "; ".join(each.text for each in report.rights)
        commands = " && ".join(grant_commands(report.user, report.rights))
        worker.journal.note(RightsMissing(report.user, missing, commands))


async def _listen(address: str, handler: Handler, name: str, tls: ServingContext | None = None) -> "Listening":
    """`name`: of the setting. With `tls` for a network, so with limits."""
    from tgp.adapters.http.serve import NO_LIMITS, NoFreePort, ServerLimits, listen  # here: aiohttp's server takes 2 MB

    limits = NO_LIMITS
    if tls is not None:
        limits = ServerLimits(
            max_request_bytes=LONGEST_REQUEST,
            request_within=REQUEST_WITHIN,
            handshake_within=HANDSHAKE_WITHIN,
            connections=MOST_CONNECTIONS,
        )
    host, _, port = address.rpartition(":")
    try:
        return await listen(
            handler,
            host=host.strip("[]"),
            port=int(port),
            exact=True,
            tls=tls.context if tls is not None else None,
            limits=limits,
        )
    except (NoFreePort, OSError) as error:
        why = str(error) if isinstance(error, NoFreePort) else error.strerror or type(error).__name__
        setting = next(each for each in TABLE if each.name == name)
        choose = f"choose another with {setting.flag} ({setting.variable})"
        raise CannotListen(f"cannot listen on {address}: {why}; {choose}") from error


def _freeze() -> None:
    """Exclude the objects so far from later garbage collections. Collect first, or garbage would stay."""
    gc.collect()
    gc.freeze()


def environment(connection: Connection, dial: HttpFactory, redactor: Redactor) -> Environment:
    """The real environment."""

    def guard(fence: Fence) -> Callable[[], None]:
        watchdog = Watchdog(fence, connection.clock)
        watchdog.start()
        return watchdog.stop

    def lost(_error: LeadershipLost) -> None:
        sys.stderr.flush()
        os._exit(LEASE_LOST_EXIT_CODE)

    return Environment(
        http=connection.http,
        clock=connection.clock,
        entropy=connection.entropy,
        host=socket.gethostname(),
        namespace=connection.namespace,
        compute=connection.compute,
        dial=dial,
        resolver=SystemResolver(),
        redactor=redactor,
        api_server=connection.addresses,
        guard=guard,
        lost=lost,
    )


def stop_on_signals(stop: Callable[[], None], end: Callable[[int], object] = os._exit) -> None:
    """The first signal stops gracefully; the second one ends the process at once.

    Explicitly: a container's first process is not ended by a signal without a handler.
    """
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def ask(number: int) -> None:
        asked.append(number)
        if len(asked) == 1:
            stop()
        else:
            end(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
