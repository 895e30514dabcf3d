"""`python -m tools.controlplane`: a cluster for a person to try things on, until Ctrl-C."""

import argparse
import os
import signal
import sys
import textwrap
import time
from pathlib import Path
from types import FrameType

from tools import toolbox
from tools.controlplane.client import Refused
from tools.controlplane.component import ControlPlaneFailed
from tools.controlplane.kubectl import Kubectl, KubectlFailed
from tools.controlplane.nodes import RUNS_FOR, fake_node
from tools.controlplane.plane import RELEASES, ControlPlane, Wanted
from tools.toolbox.find import say_on_stderr

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
FIRST_PORT = 6443  # where people look for an API server; the next free one when it is taken
CHECK_S = 1.0  # how soon a part that died by itself is noticed
SHOWN = 2000  # characters of a complaint: some rules of a CRD are longer than a screen
INTERRUPTED = 130  # what shells answer for a program ended by Ctrl-C
ENDINGS = (signal.SIGTERM, signal.SIGHUP)  # `kill`, a closed terminal: the same to us as Ctrl-C
NODES = (
    fake_node("plain-1"),
    fake_node("gpu-1", {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}),
)


def main() -> int:
    asked = _arguments()
    for ending in ENDINGS:
        signal.signal(ending, _as_interrupt)
    parts = not asked.bare
    wanted = Wanted(asked.version, controllers=parts, scheduler=parts, kwok=parts, port=asked.port)
    try:
        kubectl_program = toolbox.find(toolbox.KUBECTL)
        with ControlPlane(wanted) as plane:
            _serve(plane, Kubectl(kubectl_program, plane.kubeconfig, plane.directory), asked.seconds)
    except KeyboardInterrupt:
        say_on_stderr("interrupted before it was up")
        return INTERRUPTED
    except (toolbox.ToolboxError, ControlPlaneFailed, KubectlFailed, Refused) as error:
        say_on_stderr(str(error))
        return 1
    say_on_stderr("everything is stopped")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.controlplane",
        description="Start a real Kubernetes control plane with pretend nodes on loopback, and stop it at Ctrl-C.",
    )
    parser.add_argument("--version", choices=sorted(RELEASES), default="1.36", help="which Kubernetes (default: 1.36)")
    parser.add_argument("--bare", action="store_true", help="only etcd and the API server")
    parser.add_argument("--port", type=int, default=FIRST_PORT, help=f"first port to try (default: {FIRST_PORT})")
    parser.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="end by itself after this long")
    return parser.parse_args()


def _serve(plane: ControlPlane, kubectl: Kubectl, seconds: float | None) -> None:
    try:
        _furnish(plane, kubectl)
        _explain(plane, kubectl)
        _stay(plane, seconds)
    except KeyboardInterrupt:
        pass  # how a person ends it
    finally:
        for ending in (signal.SIGINT, *ENDINGS):
            signal.signal(ending, signal.SIG_IGN)  # stopping takes a second or two and is bounded; let it finish
        say_on_stderr("stopping …")


def _furnish(plane: ControlPlane, kubectl: Kubectl) -> None:
    if plane.wanted.kwok:
        for node in NODES:
            plane.admin.call("POST", "/api/v1/nodes", node)
    if any(CRDS.glob("*.yaml")):
        _apply_crds(kubectl)


def _apply_crds(kubectl: Kubectl) -> None:
    """A refused one is told and does not end the cluster: here is the place to find out why."""
    try:
        kubectl("apply", "--server-side", f"--filename={CRDS}")
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    except KubectlFailed as error:
        say_on_stderr(f"not all of our kinds are there:\n{textwrap.indent(error.complaint[:SHOWN], '    ')}")


def _explain(plane: ControlPlane, kubectl: Kubectl) -> None:
    lines = [
        f"Kubernetes {RELEASES[plane.wanted.version]} is up at {plane.url}; its logs are in {plane.directory}.",
        "In another terminal:",
        "",
        f"export KUBECONFIG={plane.kubeconfig}",
        f"export PATH={kubectl.program.parent}{os.pathsep}$PATH   # has kubectl {toolbox.KUBECTL.version}",
        "",
        "Then try, for example:",
        "  kubectl get nodes",
        "  kubectl api-resources --categories=tgp",
    ]
    if plane.wanted.kwok:
        lines += [
            "  kubectl create job hello --image=any    # runs on a pretend node and finishes after a second",
            f"  kubectl run train --image=any --annotations={RUNS_FOR}=30s    # finishes after that time",
        ]
    print("\n".join([*lines, "", "Ctrl-C stops everything."]), flush=True)


def _stay(plane: ControlPlane, seconds: float | None) -> None:
    end_at = None if seconds is None else time.monotonic() + seconds
    while end_at is None or time.monotonic() < end_at:
        plane.must_live()
        time.sleep(CHECK_S if end_at is None else min(CHECK_S, max(0.0, end_at - time.monotonic())))


def _as_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
