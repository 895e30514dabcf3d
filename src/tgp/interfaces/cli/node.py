"""`tgp node test`: wake a machine you own, time it, and power it off again.

The command writes a GPURequest for that one machine, follows it and deletes it: only the operator switches machines.
"""

import sys
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import click

from tgp.api.common import OWNED_PROVIDER
from tgp.api.resource import GPU_REQUEST
from tgp.api.values import duration, go_duration
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.request_timeline import StepMark, timeline_of
from tgp.interfaces.cli.cluster_options import document_output, kubeconfig_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.confirm import agreed, interactive
from tgp.interfaces.cli.context import CliServices, RequestActions
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.next_step import as_called
from tgp.interfaces.cli.output import write
from tgp.ports.cluster import ClusterError
from tgp.services.documents.nodes import MachineTestReport, machine_test_report
from tgp.services.owned_machines import OwnedMachineState
from tgp.services.request_answers import Look

FAILED = 1  # the machine did not become ready, or was not seen to power off; or the answer was no
NOT_TESTED = 3  # it is in use, or nothing may be switched now
NOT_BEGUN = "No request was created, and nothing was switched."
SPARE = timedelta(minutes=10)  # for everything but the boot: reserving, draining, two lists
SHOWN_PODS = 5
STEPS = {  # of a request's timeline, in the words of a power test
    "rented": "power-on sent",
    "joined": "Node Ready",
    "ready": "GPUs allocatable",
    "drained": "Node empty",
}


@click.group()
def node() -> None:
    """Machines you own: try whether one can be powered on and off."""


@node.command("test")
@click.argument("name", shell_complete=live_names("machine", bare=True))
@click.option("-n", "--namespace", default="", metavar="NAME", help="Of the GPURequest. Default: the kubeconfig's.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@document_output
@kubeconfig_options
@click.pass_obj
def test(
    services: CliServices, *, name: str, namespace: str, yes: bool, how: str, kubeconfig: str, context: str
) -> None:
    """Power machine NAME on, wait for its Node and GPUs, and power it off, with the seconds that each step took.

    The command writes a GPURequest for this machine and deletes it afterwards; the operator powers it on and
    off. A machine that is on, or on which pods run, is not tested. -o json prints the result, and the steps on standard
    error. Exit code 0: it works. 1: it did not become ready, or was not seen to power off. 3: it was not tested.
    """
    begun = BegunSteps(NOT_BEGUN)
    try:
        code = run(_test(services.requests(kubeconfig, context), name, namespace, begun, yes=yes, how=how), begun)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    raise SystemExit(code)


def refusal(state: OwnedMachineState) -> str:
    """Why the machine is not tested now, and what to do; empty: it can be."""
    name = state.machine.name
    if state.refused:
        return f"{name} is never powered on or off: {state.refused}."
    if state.pods:
        shown = ", ".join(str(pod.key) for pod in state.pods[:SHOWN_PODS])
        more = f" and {len(state.pods) - SHOWN_PODS} more" if len(state.pods) > SHOWN_PODS else ""
        return f"{name} is not tested while pods run there: {shown}{more}. Try again when they have ended."
    if state.request is not None:
        watch = as_called(f"tgp watch request/{state.request} --until gone")
        return f"{name} is in use by request {state.request}. Try again when the request is gone: {watch}"
    if state.on:
        return (
            f"{name} is on: its Node is Ready. The test begins with a machine that is off: power it off first, or let "
            "the pool that uses its class do that."
        )
    return f"{name} cannot be powered on now: {state.stopped}" if state.stopped else ""


def manifest_for(state: OwnedMachineState, key: ObjectKey) -> dict[str, Any]:
    """Other pods are kept off the machine, and it goes off by itself if the request is never deleted."""
    return {
        "apiVersion": GPU_REQUEST.api_version,
        "kind": GPU_REQUEST.kind,
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {
            "nodeClassRef": {"name": state.class_name},
            "offer": {"provider": OWNED_PROVIDER, "instanceType": state.machine.name},
            "gpuCount": state.machine.gpu_count,
            "exclusive": True,
            "idleTimeout": "Never",
            "maxLifetime": go_duration(_longest(state)),
        },
    }


def _longest(state: OwnedMachineState) -> timedelta:
    """The boot and all around it. A boot timeout is extended to twice its length where progress is reported."""
    return 2 * duration(state.machine.boot_timeout, "bootTimeout") + SPARE


async def _test(
    connecting: AbstractAsyncContextManager[RequestActions],
    name: str,
    namespace: str,
    begun: BegunSteps,
    *,
    yes: bool,
    how: str,
) -> int:
    async with connecting as requests:
        state = await requests.owned(name)
        if why := refusal(state):
            click.echo(why, err=True)
            return NOT_TESTED
        if not (yes or interactive()):
            raise click.UsageError("There is no terminal for the question: add --yes to switch the machine.")
        if not agreed(f"Power {name} on, and off again?", yes=yes):
            click.echo(NOT_BEGUN, err=True)
            return FAILED
        key = ObjectKey(namespace or requests.namespace, requests.fresh_name(f"test-{name}"))
        shown = f"kubectl get gpurequest {key.name} -n {key.namespace}"
        begun.words = f"Whether request {key} was created is unknown: {shown}. If it was, {name} is being powered on."
        await requests.create(manifest_for(state, key))
        tested = MachineTest(requests, state, key, begun, how)
        code = await tested.run()
        if how != "table":
            write(tested.document(), how)
        return code


@dataclass(slots=True)
class MachineTest:
    """One test from the created request to the machine that is off again."""

    requests: RequestActions
    state: OwnedMachineState
    key: ObjectKey
    begun: BegunSteps
    how: str  # how the result is printed; as a document the steps go to standard error
    began: datetime | None = None  # by the API server's clock
    ready_after: timedelta | None = None  # None: it was not ready yet
    ended_after: timedelta | None = None  # when the request was deleted; None: it was not
    off_after: timedelta | None = None  # when the request was gone; None: that was not seen
    problem: str = ""  # why the machine does not work
    _said: set[str] = field(default_factory=set)
    _waits_for: str = ""  # what was said last of a step that is not done

    async def run(self) -> int:
        self._note_begun()
        async with aclosing(self.requests.follow(self.key)) as looks:
            async for look in looks:
                if look.request is None and not look.trouble:
                    return self._outcome(self._since(look.now))
                if self._too_late(look.now):
                    return self._not_seen_off(look.now)
                if look.request is None:
                    continue
                self._tell(look)
                if self.ended_after is None and (self.ready_after is not None or self.problem):
                    self._say(
                        self._since(look.now), f"deleting request {self.key}: the operator powers the machine off"
                    )
                    self.ended_after = self._since(look.now)
                    self._note_begun()
                    await self.requests.delete(self.key, look.request.metadata.uid or "")
        return FAILED

    # -- what was seen -------------------------------------------------------------------------------------------------

    def _tell(self, look: Look) -> None:
        assert look.request is not None, "only a request has steps"
        timeline = timeline_of(look.request, look.now)
        if self.began is None:
            self.began = look.request.metadata.creation_timestamp or look.now
            self._say(timedelta(0), f"request {self.key} created")
        for step in timeline.steps:
            words = STEPS.get(step.name, "")
            if words and step.mark is StepMark.DONE and step.at is not None and words not in self._said:
                self._said.add(words)
                self._say(self._since(step.at), words)
        if self.ended_after is not None:
            return
        current = timeline.current
        if current is not None and current.note and not timeline.ready:
            told = _without_digits(self._waits_for) == _without_digits(current.note)
            self._waits_for = current.note
            if not told:
                self._say(self._since(look.now), f"waiting: {current.note}")
        if timeline.ready:
            done = next(step for step in timeline.steps if step.name == "ready")
            self.ready_after = self._since(done.at or look.now)
        elif timeline.over or timeline.phase == "Terminating" or self._attempt_failed(timeline.attempts):
            self.problem = timeline.message or "the operator ended the attempt"
        elif self._since(look.now) > _longest(self.state):
            self.problem = (
                f"it is not ready after {_seconds(self._since(look.now))}: {self._waits_for or 'no progress'}"
            )

    @staticmethod
    def _attempt_failed(attempts: tuple[Any, ...]) -> bool:
        return any(attempt.ended_at is not None for attempt in attempts)

    def _since(self, moment: datetime) -> timedelta:
        return max(moment - (self.began or moment), timedelta(0))

    def _too_late(self, now: datetime) -> bool:
        return self.ended_after is not None and self._since(now) > self.ended_after + SPARE

    # -- what is said --------------------------------------------------------------------------------------------------

    def _say(self, after: timedelta, words: str) -> None:
        click.echo(f"{after.total_seconds():5.0f} s  {words}", err=self.how != "table")
        sys.stdout.flush()  # the reader of a pipe needs the line now

    def _note_begun(self) -> None:
        """What Ctrl-C would leave behind from here on."""
        name, key = self.state.machine.name, self.key
        if self.ended_after is None:
            self.begun.words = (
                f"{name} is being powered on by request {key}. It is powered off when the request is deleted (kubectl "
                f"delete gpurequest {key.name} -n {key.namespace}), or by itself {go_duration(_longest(self.state))} "
                "after the launch."
            )
        else:
            self.begun.words = (
                f"Request {key} is being deleted, and the operator powers {name} off. Whether it is off was not seen: "
                f"kubectl get gpurequest {key.name} -n {key.namespace}"
            )

    def _not_seen_off(self, now: datetime) -> int:
        click.echo(
            f"{self.state.machine.name} was not seen to power off within {_seconds(SPARE)}; the operator continues. "
            f"See: {as_called(f'tgp why request/{self.key}')}",
            err=True,
        )
        self._say(self._since(now), "gave up waiting")
        return FAILED

    def _outcome(self, after: timedelta) -> int:
        name, timeout = self.state.machine.name, self.state.machine.boot_timeout
        self.off_after = after
        self._say(after, "off: the request is gone")
        if self.ready_after is None or self.ended_after is None:
            why = self.problem or "the request was deleted by another user"
            click.echo(f"{name} did not become ready: {why}", err=True)
            return FAILED
        off = _seconds(after - self.ended_after)
        works = f"{name} works: on in {_seconds(self.ready_after)} (bootTimeout {timeout}), off in {off}."
        click.echo(works, err=self.how != "table")
        return 0

    def document(self) -> MachineTestReport:
        on, off = self.ready_after, None
        if self.off_after is not None and self.ended_after is not None:
            off = self.off_after - self.ended_after
        return machine_test_report(self.state.machine.name, self.key, on=on, off=off, problem=self.problem)


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():.0f} s"


def _without_digits(words: str) -> str:
    """A deadline that moves is the same wait."""
    return "".join(sign for sign in words if not sign.isdigit())
