"""Stands in for the kubelet: runs the very command of pods that the real controllers made.

Each pod gets a host name and a root of its own, with the volumes that its manifest mounts: the settings from the
ConfigMap, an empty /tmp, and token, CA and namespace of its ServiceAccount. Environment, arguments and grace period are
the pod's. What differs: it runs as root on the files of this machine, where an image would bring its own; and it is on
the network of the host, so probes and HTTPS get free ports.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.controlplane.plane import ControlPlane, quiet_environment
from tools.controlplane.ports import free_port

ROOT = Path(__file__).parents[2]
OWN = {"etc", "proc", "run", "sys", "tmp", "var"}  # of a root; the rest is this machine's
FROM_ETC = (
    "passwd",
    "group",
    "hosts",
    "resolv.conf",
    "nsswitch.conf",
    "localtime",
    "ld.so.cache",
    "ssl",
    "alternatives",
)
ENTRYPOINT = (sys.executable, "-m", "tgp")  # the image's is `tgp`
MOUNTED = 'while IFS=: read -r from to; do mount --rbind "$from" "$to"; done'
ENTER = f'set -e; mount --make-rprivate /; {MOUNTED}; hostname "$HOSTNAME"; exec chroot "$@"'
POLL_S = 0.2
SHOWN = 3000


class PodLauncher:
    """`tend` starts what should run and stops what should not; call it until what you wait for is so."""

    def __init__(self, plane: ControlPlane, namespace: str, selector: str, folder: Path) -> None:
        self._plane = plane
        self._namespace = namespace
        self._selector = selector
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}  # by pod name

    def tend(self) -> None:
        wanted = {pod["metadata"]["name"]: pod for pod in self._pods()}
        for name in sorted(self.running.keys() - wanted.keys()):
            process = self.running.pop(name)
            process.terminate()
            assert process.wait(30) == 0, self.said(name)
        for name in sorted(wanted.keys() - self.running.keys()):
            self.running[name] = self._start(wanted[name])

    def kill(self, name: str) -> None:
        """As by a power cut; `tend` starts it again."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-SHOWN:]

    def leave(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        self.running.clear()

    def _pods(self) -> Iterator[dict[str, Any]]:
        listed = self._call(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={self._selector}")["items"]
        for pod in listed:
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") == "Running":
                yield pod

    def _start(self, pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        root = self._folder / name
        shutil.rmtree(root, ignore_errors=True)
        binds = self._root(root)
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            self._fill(root / _inside(mount["mountPath"]), volumes[mount["name"]], pod)
        command = container.get("command") or list(ENTRYPOINT)
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                (
                    "unshare",
                    "--mount",
                    "--uts",
                    "sh",
                    "-c",
                    ENTER,
                    "sh",
                    str(root),
                    *command,
                    *container.get("args", ()),
                ),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment(name, container),
            )
        assert process.stdin is not None
        with closing(process.stdin) as lines:
            lines.write("".join(f"{source}:{target}\n" for source, target in binds).encode())
        return process

    def _root(self, root: Path) -> list[tuple[Path, Path]]:
        """Folders of its own, and what of this machine is mounted into them."""
        binds = []
        for name in OWN:
            (root / name).mkdir(parents=True)
        (root / "var" / "run").symlink_to("../run")
        for each in FROM_ETC:
            source = Path("/etc") / each
            if source.is_dir():
                shutil.copytree(source, root / "etc" / each, symlinks=True)
            elif source.exists():
                shutil.copy(source, root / "etc" / each)
        for entry in sorted(Path("/").iterdir()):
            if entry.name in OWN or not entry.is_dir():
                continue
            if entry.is_symlink():
                (root / entry.name).symlink_to(entry.readlink())
            else:
                (root / entry.name).mkdir()
                binds.append((entry, root / entry.name))
        for needed in (ROOT, Path(sys.prefix), Path(sys.base_prefix)):  # a clone may be in /tmp
            if needed.parts[1] in OWN:
                place = root / needed.relative_to("/")
                place.mkdir(parents=True, exist_ok=True)
                binds.append((needed, place))
        return [*binds, (Path("/proc"), root / "proc")]

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
        kept = {each: value for each, value in quiet_environment().items() if each in ("PATH", "LANG", "PYTHONPATH")}
        said = {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
        ports = {"TGP_LISTEN": f"127.0.0.1:{free_port()}", "TGP_HTTPS_LISTEN": f"127.0.0.1:{free_port()}"}
        address = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        return {**kept, **address, **ports, "HOSTNAME": name, **said}

    def _call(self, path: str) -> dict[str, Any]:
        return self._plane.admin.call("GET", path)


def _inside(path: str) -> str:
    """/var/run is a link to /run, as in Debian."""
    return path.removeprefix("/").replace("var/run/", "run/", 1)


@contextmanager
def launched(plane: ControlPlane, namespace: str, selector: str, folder: Path) -> Iterator[PodLauncher]:
    assert os.geteuid() == 0, "a pod's root is mounted: this needs root"
    launcher = PodLauncher(plane, namespace, selector, folder)
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
