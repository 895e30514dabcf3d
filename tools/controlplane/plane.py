"""A real Kubernetes control plane on loopback for as long as a `with` lasts, and not a moment longer."""

import atexit
import json
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools import toolbox
from tools.controlplane import commands, etcd, kubeconfig
from tools.controlplane.certificates import Authority, Pair, service_account_key
from tools.controlplane.client import AdminClient, Refused
from tools.controlplane.commands import Extra, Layout
from tools.controlplane.component import Component, ControlPlaneFailed, Program
from tools.controlplane.ports import free_port
from tools.controlplane.scratch import Scratch
from tools.toolbox.cache import Say
from tools.toolbox.find import say_on_stderr
from tools.toolbox.pins import KUBERNETES, OLDEST_KUBERNETES, Tool, kubernetes_program

READY_BOUND_S = 90  # 6 s on two quiet cores; generous, because a busy machine starts things side by side
STOP_PATIENCE_S = 5  # asked to go, each goes within a second or two; then it is killed
POLL_S = 0.05
ASK_AGAIN_S = 2  # a stranger on our port may take a connection and say nothing
PORT_ATTEMPTS = 5  # a port can be taken between looking and binding
ADMIN_GROUP = "system:masters"
APISERVER = "kube-apiserver"
ETCD = "etcd"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
RELEASES = {"1.36": KUBERNETES, "1.28": OLDEST_KUBERNETES}
ADDRESS_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which parts run. The API server and etcd always do."""

    version: str = "1.36"
    controllers: bool = False
    scheduler: bool = False
    kwok: bool = False
    port: int = 0  # the first to try; 0: any
    extra: Extra = field(default_factory=dict)  # more arguments, by program name

    def tools(self) -> dict[str, Tool]:
        """The programs needed, by name."""
        release = RELEASES[self.version]
        wanted = [toolbox.ETCD_SERVER, kubernetes_program(APISERVER, release)]
        if self.controllers:
            wanted.append(kubernetes_program(CONTROLLER_MANAGER, release))
        if self.scheduler:
            wanted.append(kubernetes_program(SCHEDULER, release))
        if self.kwok:
            wanted.append(toolbox.KWOK_CONTROLLER)
        return {tool.name: tool for tool in wanted}


EVERYTHING = Wanted(controllers=True, scheduler=True, kwok=True)
AUDIT = {  # so that a test can tell which Secrets were read; nothing else is written down
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["get", "list", "watch"],
            "resources": [{"resources": ["secrets"]}],
        },
        {"level": "None"},
    ],
}


class ControlPlane:
    """Start it with `start` or `with`; `stop` may be called at any time and more than once."""

    def __init__(self, wanted: Wanted | None = None, say: Say = say_on_stderr) -> None:
        self.wanted = wanted or Wanted()
        self._say = say
        self._components: list[Component] = []
        self._authority = Authority()
        self.admin_token = secrets.token_urlsafe(24)
        self._visitors = 0
        self._owner = os.getpid()
        self._scratch: Scratch | None = None
        self._layout: Layout | None = None
        self._admin: tuple[str, AdminClient] | None = None  # with the address that it asks

    # What others use

    @property
    def url(self) -> str:
        return self._laid_out.url

    @property
    def directory(self) -> Path:
        """Logs (`*.log`), keys and kubeconfigs, until the end."""
        return self._laid_out.directory

    @property
    def ca_file(self) -> Path:
        return self._laid_out.file("ca.crt")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._laid_out.file("admin.kubeconfig")

    @property
    def audit_log(self) -> Path:
        """Who read which Secret: one JSON document per line."""
        return self._laid_out.file("audit.log")

    @property
    def admin(self) -> AdminClient:
        if self._admin is None or self._admin[0] != self.url:
            self._part_from_admin()
            self._admin = self.url, AdminClient(self.url, self.ca_file, self.admin_token)
        return self._admin[1]

    def _part_from_admin(self) -> None:
        if self._admin is not None:
            self._admin[1].close()
        self._admin = None

    @property
    def pids(self) -> dict[str, int]:
        return {component.name: component.pid for component in self._components}

    def kubeconfig_for_user(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A client certificate for any user name; each call writes a file of its own."""
        return self._write_kubeconfig(self._fresh(user), kubeconfig.for_certificate(self.certificate_for(user, groups)))

    def certificate_for(self, user: str, groups: tuple[str, ...] = ()) -> Pair:
        return self._authority.client(user, groups)

    def kubeconfig_for_service_account(self, namespace: str, name: str, expires_in_s: int = 3600) -> Path:
        """A token of an existing service account, as a pod of it would hold."""
        token = self.service_account_token(namespace, name, expires_in_s)
        return self._write_kubeconfig(self._fresh(f"{namespace}.{name}"), kubeconfig.for_token(token))

    def service_account_token(self, namespace: str, name: str, expires_in_s: int = 3600) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": expires_in_s},
        }
        return str(self.admin.call("POST", path, request)["status"]["token"])

    # Start

    def start(self) -> Self:
        """Return when the API server is ready and the controllers are at work; failing, show the end of a log."""
        assert self._layout is None, "started already"
        programs = {
            tool.name: path for tool, path in toolbox.find_all(self.wanted.tools().values(), say=self._say).items()
        }
        self._scratch = Scratch()
        atexit.register(self.stop)
        with ExitStack() as if_it_fails:
            if_it_fails.callback(self._end, keep_logs=True)
            self._start_in(self._scratch.path, programs)
            if_it_fails.pop_all()
        return self

    def _start_in(self, directory: Path, programs: dict[str, Path]) -> None:
        self._layout = Layout(directory, free_port(self.wanted.port), programs, self.wanted.extra)
        self._write_keys()
        memory = self._run(commands.etcd(self._layout))
        self._wait(self._laid_out.file("etcd.sock").is_socket, "etcd did not open its socket", memory)
        self._start_apiserver()
        if self.wanted.controllers:
            self._run_as(f"system:{CONTROLLER_MANAGER}", (), commands.kube_controller_manager(self._laid_out))
        if self.wanted.scheduler:
            self._run_as(f"system:{SCHEDULER}", (), commands.kube_scheduler(self._laid_out))
        if self.wanted.kwok:
            self._run_as("kwok", (ADMIN_GROUP,), commands.kwok(self._laid_out))
        if self.wanted.controllers:
            self._wait(self._has_default_service_account, "no default service account was made", *self._components)
        self.must_live()

    def _start_apiserver(self) -> None:
        """On the port chosen, or on another if that one is taken."""
        for attempt in range(PORT_ATTEMPTS):
            server = self._run(commands.kube_apiserver(self._laid_out, service_accounts=self.wanted.controllers))
            try:
                self._wait(self._is_ready, "the API server did not become ready", server)
            except ControlPlaneFailed:
                if attempt + 1 == PORT_ATTEMPTS or not server.said(ADDRESS_TAKEN):
                    raise
                self._forget(server)
                self._choose_another_port()
            else:
                self._write_kubeconfig(
                    "admin", kubeconfig.for_certificate(self.certificate_for("admin", (ADMIN_GROUP,)))
                )
                return

    def restart_apiserver(self) -> None:
        """End it and start it again at the same address: every connection breaks, everything written stays."""
        with self.without_apiserver():
            pass

    @contextmanager
    def without_apiserver(self) -> Iterator[None]:
        """Its address refuses every connection; then it is started again there, and ready."""
        server = next(it for it in self._components if it.name == APISERVER)
        server.stop(STOP_PATIENCE_S)
        yield
        program = commands.kube_apiserver(self._laid_out, service_accounts=self.wanted.controllers)
        again = Component(program, server.log, quiet_environment())
        self._components[self._components.index(server)] = again  # in its place: it has to end before etcd
        self._wait(self._is_ready, "the API server did not become ready again", again)

    def back_up_etcd(self) -> Path:
        """A copy of all it holds now, as of a power cut: it stands still meanwhile, and reads its log when restored."""
        copy = self._laid_out.file(f"etcd-backup-{time.monotonic_ns()}")
        with self.standing_still(ETCD):
            shutil.copytree(self._laid_out.file(ETCD), copy)
        return copy

    def restore_etcd(self, backup: Path) -> None:
        """Whatever was written since never was, and its revisions are given out again; no client is told."""
        server = next(it for it in self._components if it.name == APISERVER)
        memory = next(it for it in self._components if it.name == ETCD)
        server.stop(STOP_PATIENCE_S)
        memory.stop(STOP_PATIENCE_S)
        shutil.rmtree(self._laid_out.file(ETCD))
        shutil.copytree(backup, self._laid_out.file(ETCD))
        for socket in ("etcd.sock", "peer.sock"):
            self._laid_out.file(socket).unlink(missing_ok=True)
        again = Component(commands.etcd(self._laid_out), memory.log, quiet_environment())
        self._components[self._components.index(memory)] = again
        self._wait(self._laid_out.file("etcd.sock").is_socket, "etcd did not open its socket again", again)
        self.restart_apiserver()

    @contextmanager
    def standing_still(self, name: str) -> Iterator[None]:
        """One program answers nothing and holds every connection, as on a host that swaps; then it goes on."""
        pid = self.pids[name]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def compact_etcd(self) -> int:
        return etcd.compact(self._laid_out.file("etcd.sock"))

    def _choose_another_port(self) -> None:
        old = self._laid_out
        self._layout = Layout(old.directory, free_port(old.port + 1), old.programs, old.extra)

    # Stop

    def stop(self) -> None:
        """Everything is gone when this returns: the API server before etcd, for without etcd it may not go."""
        self._end(keep_logs=False)

    def _end(self, *, keep_logs: bool) -> None:
        if os.getpid() != self._owner:
            return  # a forked copy of us has our list, but the processes are not its children
        self._part_from_admin()
        while self._components:
            self._components[-1].stop(STOP_PATIENCE_S)
            self._components.pop()
        if self._scratch is not None:
            self._scratch.discard(keep_logs=keep_logs)
        atexit.unregister(self.stop)

    def must_live(self) -> None:
        """Raise with the end of a log if any part has died."""
        for component in self._components:
            component.must_live()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Within

    @property
    def _laid_out(self) -> Layout:
        assert self._layout is not None, "not started"
        return self._layout

    def _write_keys(self) -> None:
        layout = self._laid_out
        serving = self._authority.serving()
        for name, content in (
            ("ca.crt", self._authority.pair.certificate),
            ("ca.key", self._authority.pair.key),
            ("apiserver.crt", serving.certificate),
            ("apiserver.key", serving.key),
            ("sa.key", service_account_key()),
            ("audit.yaml", json.dumps(AUDIT).encode()),
            ("tokens.csv", f'{self.admin_token},admin,admin,"{ADMIN_GROUP}"\n'.encode()),
        ):
            kubeconfig.write_private(layout.file(name), content)

    def _fresh(self, whose: str) -> str:
        """A file name that nothing else has, the administrator's own least of all."""
        self._visitors += 1
        return f"visitor-{self._visitors}-{re.sub(r'[^a-zA-Z0-9.-]', '_', whose)}"

    def _write_kubeconfig(self, name: str, user: dict[str, Any]) -> Path:
        path = self._laid_out.file(f"{name}.kubeconfig")
        return kubeconfig.write(path, self.url, self._authority.pair, user)

    def _run_as(self, user: str, groups: tuple[str, ...], program: Program) -> Component:
        pair = self.certificate_for(user, groups)
        self._write_kubeconfig(program.name, kubeconfig.for_certificate(pair))
        return self._run(program)

    def _run(self, program: Program) -> Component:
        component = Component(program, self._laid_out.file(f"{program.name}.log"), quiet_environment())
        self._components.append(component)
        return component

    def _forget(self, component: Component) -> None:
        component.stop(STOP_PATIENCE_S)
        component.log.unlink()
        self._components.remove(component)

    def _wait(self, true_now: Callable[[], bool], otherwise: str, *needed: Component) -> None:
        give_up_at = time.monotonic() + READY_BOUND_S
        while not true_now():
            for component in needed:
                component.must_live()
            if time.monotonic() > give_up_at:
                logs = "\n".join(component.tail() for component in needed)
                raise ControlPlaneFailed(f"{otherwise} within {READY_BOUND_S} s. {logs}")
            time.sleep(POLL_S)

    def _is_ready(self) -> bool:
        try:
            status, _ = self.admin.ask("GET", "/readyz", within_s=ASK_AGAIN_S)
        except OSError:
            return False
        return status == 200

    def _has_default_service_account(self) -> bool:
        try:
            self.admin.call("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except (OSError, Refused):
            return False
        return True


def quiet_environment() -> dict[str, str]:
    """Ours, without what would lead a program away from loopback or from its own flags."""
    unwanted = ("http_proxy", "https_proxy", "all_proxy", "kubeconfig")
    ours = {name: value for name, value in os.environ.items() if name.lower() not in unwanted}
    return {"GOGC": "400", **ours}  # these programs live for minutes: collecting garbage less often saves a third
