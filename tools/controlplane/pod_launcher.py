"""Stands in for the kubelet: runs the very command of pods that the real controllers made, in the root of the image.

Each pod gets a host name and a root of its own: the image's files, read-only, and the volumes that its manifest mounts:
the settings from the ConfigMap, an empty /tmp, and token, CA and namespace of its ServiceAccount. User, environment,
arguments and grace period are the pod's and the image's. What differs: it is on the network of the host, so probes and
HTTPS get free ports; and where the image's code is not the tree's own, or a pod is of another release, the code of that
commit is mounted over it.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.image import SITE, Image

ROOT = Path(__file__).parents[2]
TREE = ROOT / "src" / "tgp"
OWN = {"dev", "etc", "proc", "run", "sys", "tmp", "var"}  # of a pod's root; the rest is mounted from the image
FROM_THE_HOST = ("resolv.conf", "hosts")  # as a kubelet makes them
MOUNTED = (
    'while IFS=: read -r how from to; do mount --rbind "$from" "$to"; '
    'test "$how" = rw || mount -o "remount,bind,$how" "$to"; done'
)
ENTER = f'set -e; mount --make-rprivate /; {MOUNTED}; hostname "$HOSTNAME"; exec chroot "$@"'
ENTERED = ("unshare", "--mount", "--uts", "sh", "-c", ENTER, "sh")
SELECTOR = "app.kubernetes.io/name=tgp-operator"
LEASE_LOST = (75, 14)  # by the operator itself, or by the timer behind its watchdog: it is started again
POLL_S = 0.2
RUN_BOUND_S = 60
SHOWN = 3000

Binds = list[tuple[str, Path, Path]]  # ro or rw, from, to


class PodLauncher:
    """`tend` starts what should run and stops what should not; call it until what you wait for is so."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        folder: Path,
        image: Image,
        code: Mapping[str, Path] | None = None,
    ) -> None:
        """`code`: tgp's package of other releases, by the tag of their image; any other tag runs that of the tree, by
        the image itself where it was built from this tree.
        """
        self._plane = plane
        self._image = image
        self._code = code or {}
        self._namespace = namespace
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}  # by pod name

    def tend(self) -> None:
        wanted = {pod["metadata"]["name"]: pod for pod in self._pods()}
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                assert process.returncode in LEASE_LOST, f"{name} ended with {process.returncode}: {self.said(name)}"
                del self.running[name]
        for name in sorted(wanted.keys() - self.running.keys()):
            self.running[name] = self._start(wanted[name])
        for name in sorted(self.running.keys() - wanted.keys()):
            if self._holds_up(name, wanted):
                continue
            process = self.running.pop(name)
            process.terminate()
            ended = process.wait(30)
            early = "OperatorStarted" not in self._log(name)  # before it could hear of it
            assert early or ended in (0, *LEASE_LOST), f"{name} ended with {ended}: {self.said(name)}"

    def _holds_up(self, name: str, wanted: Mapping[str, Any]) -> bool:
        """In a rollout a former pod stays until those that replace it have started, which KWOK cannot know."""
        newer = [each for each in wanted if _replica_set(each) != _replica_set(name)]
        return len(newer) == len(wanted) and not all("OperatorStarted" in self._log(each) for each in newer)

    def kill(self, name: str) -> None:
        """As by a power cut; `tend` starts it again."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def said(self, name: str) -> str:
        return self._log(name)[-SHOWN:]

    def _log(self, name: str) -> str:
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def leave(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        self.running.clear()

    def _pods(self) -> Iterator[dict[str, Any]]:
        listed = self._call(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={SELECTOR}")["items"]
        for pod in listed:
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") == "Running":
                yield pod

    def _start(self, pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        root = self._folder / name
        shutil.rmtree(root, ignore_errors=True)
        binds = self._root(root)
        package = self._code.get(container["image"].rpartition(":")[2], None if self._image.of_tree else TREE)
        if package is not None:
            binds.append(("ro", package, root / SITE / "tgp"))
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            self._fill(root / _inside(mount["mountPath"]), volumes[mount["name"]], pod)
        security = pod["spec"]["securityContext"]
        user, group = security["runAsUser"], security["runAsGroup"]
        (root / "tmp").chmod(0o1777)
        command = container.get("command") or self._image.entrypoint
        arguments = container.get("args") or self._image.command
        entered = (f"--userspec=+{user}:+{group}", f"--groups=+{security['fsGroup']}", str(root))
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                (*ENTERED, *entered, *command, *arguments),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment(name, container),
            )
        assert process.stdin is not None
        with closing(process.stdin) as lines:
            lines.write(_lines(binds))
        return process

    def by_the_image(self, *arguments: str) -> str:
        """What the image's entrypoint writes, by the code that is in it: nothing is mounted over it."""
        root = self._folder / "by-the-image"
        shutil.rmtree(root, ignore_errors=True)
        binds = self._root(root)
        user, _, group = self._image.user.partition(":")
        entered = (f"--userspec=+{user}:+{group or user}", str(root))
        done = subprocess.run(
            (*ENTERED, *entered, *self._image.entrypoint, *arguments),
            input=_lines(binds),
            capture_output=True,
            env={**self._image.environment, "HOSTNAME": root.name},
            timeout=RUN_BOUND_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr.decode()[-SHOWN:]}"
        return done.stdout.decode()

    def _root(self, root: Path) -> Binds:
        """Folders of its own, and what is mounted into them."""
        binds: Binds = []
        for name in OWN - {"etc"}:
            (root / name).mkdir(parents=True)
        (root / "var" / "run").symlink_to("../run")
        shutil.copytree(self._image.root / "etc", root / "etc", symlinks=True)
        for each in FROM_THE_HOST:
            shutil.copy(Path("/etc") / each, root / "etc" / each)
        for entry in sorted(self._image.root.iterdir()):
            if entry.is_symlink():
                (root / entry.name).symlink_to(entry.readlink())
            elif entry.is_dir() and entry.name not in OWN:
                (root / entry.name).mkdir()
                binds.append(("ro", entry, root / entry.name))
        return [*binds, *(("rw", Path("/") / name, root / name) for name in ("proc", "dev"))]

    def _fill(self, place: Path, volume: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
        place.mkdir(parents=True, exist_ok=True)
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for source in sources:
            match source:
                case {"configMap": {"name": name}}:
                    found = self._call(f"/api/v1/namespaces/{self._namespace}/configmaps/{name}")
                    for key, text in found["data"].items():
                        (place / key).write_text(text)
                case {"serviceAccountToken": {"path": path}}:
                    account = pod["spec"]["serviceAccountName"]
                    (place / path).write_text(self._plane.service_account_token(self._namespace, account))
                case {"downwardAPI": _}:
                    (place / "namespace").write_text(self._namespace)
                case {"emptyDir": _}:
                    pass
                case _:
                    raise AssertionError(f"a volume that no test needed yet: {json.dumps(source)}")

    def _environment(self, name: str, container: Mapping[str, Any]) -> dict[str, str]:
        server = urlsplit(self._plane.url)
        said = {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
        listens = ("TGP_LISTEN", "TGP_METRICS_LISTEN", "TGP_HTTPS_LISTEN")
        ports = {each: f"127.0.0.1:{free_port()}" for each in listens}
        address = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        return {**self._image.environment, **address, **ports, "HOSTNAME": name, **said}

    def _call(self, path: str) -> dict[str, Any]:
        return self._plane.admin.call("GET", path)


def _lines(binds: Binds) -> bytes:
    return "".join(f"{how}:{source}:{target}\n" for how, source, target in binds).encode()


def _replica_set(pod: str) -> str:
    return pod.rpartition("-")[0]


def _inside(path: str) -> str:
    """/var/run is a link to /run, as in Debian."""
    return path.removeprefix("/").replace("var/run/", "run/", 1)


@contextmanager
def launched(
    plane: ControlPlane,
    namespace: str,
    folder: Path,
    image: Image,
    code: Mapping[str, Path] | None = None,
) -> Iterator[PodLauncher]:
    assert os.geteuid() == 0, "a pod's root is mounted: this needs root"
    launcher = PodLauncher(plane, namespace, folder, image, code)
    try:
        yield launcher
    finally:
        launcher.leave()


def until(launcher: PodLauncher, holds: Any, what: str, within_s: float) -> float:
    """Seconds until it holds; pods are tended meanwhile."""
    began = time.monotonic()
    while not holds():
        launcher.tend()
        if time.monotonic() - began > within_s:
            logs = "\n".join(f"{name}:\n{launcher.said(name)}" for name in launcher.running)
            raise AssertionError(f"not within {within_s:.0f} s: {what}\n{logs}")
        time.sleep(POLL_S)
    return time.monotonic() - began
