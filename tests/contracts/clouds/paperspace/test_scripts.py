"""Start-up scripts hold join secrets: each ends with its machine, and what a lost answer left behind is found."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.contracts.clouds.paperspace.answers import REQUEST, TOKEN
from tests.contracts.clouds.providers.paperspace import PROVIDER
from tests.contracts.clouds.providers.vultr import PROVIDER as VULTR
from tests.contracts.clouds.stage import USER_DATA, Stage, play
from tgp.adapters.clouds.middleware.account_throttle import AccountThrottles
from tgp.adapters.clouds.middleware.guarded_cloud import GuardedCloud
from tgp.adapters.clouds.paperspace import scripts
from tgp.core.model.cloud_errors import CloudBusy, OrderRefused, OutcomeUnknown, SoldOut
from tgp.ports.cloud import HasLeftovers
from tgp.ports.http import Call, json_call
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.entropy import SeededEntropy

NOW = datetime(2026, 6, 2, 12, tzinfo=UTC)
OTHER_REQUEST = "f" * 32


def a_script(name: str, age: timedelta = timedelta(hours=1), machines: tuple[str, ...] = ()) -> scripts.StartupScript:
    return scripts.StartupScript("su1", name, machines, NOW - age)


@pytest.mark.parametrize(
    ("script", "goes"),
    [
        (a_script(TOKEN), True),
        (a_script(f"tgp-c0ffee0123-{REQUEST}-1"), True),  # an earlier attempt, settled before this one began
        (a_script(f"tgp-c0ffee0123-{REQUEST}-3"), False),  # a later one may be booting by it
        (a_script(f"tgp-c0ffee0123-{OTHER_REQUEST}-1"), False),
        (a_script(f"tgp-c0ffee0123-{OTHER_REQUEST}-1", timedelta(hours=25)), True),
        (a_script(f"tgp-0000000bad-{REQUEST}-1", timedelta(days=9)), False),  # another cluster's
        (a_script("stranger's own script", timedelta(days=900)), False),
        (a_script(f"{TOKEN}-and-more", timedelta(days=9)), False),
        (a_script("stranger's own script", machines=("ps1",)), False),
        (a_script(f"tgp-0000000bad-{OTHER_REQUEST}-1", machines=("ps1",)), True),  # of the very machine that ends
    ],
)
def test_a_script_is_removed_when_unused(script: scripts.StartupScript, goes: bool):
    assert bool(scripts.removable((script,), NOW, token=TOKEN, machine="ps1")) is goes


def test_without_a_token_only_the_machines_own_script_goes():
    kept, own = a_script(TOKEN, timedelta(days=9)), replace(a_script(TOKEN), id="su2", machines=("ps1",))

    assert scripts.removable((kept, own), NOW, machine="ps1") == ("su2",)


def test_rows_that_cannot_be_read_are_not_touched():
    assert scripts.read((None, {}, {"id": "a/b", "name": TOKEN}, {"id": "su1", "name": None})) == ()


def names(stage: Stage) -> list[str]:
    return [script.name for script in stage.simulator.scripts.values()]


def sends(stage: Stage, method: str, path: str) -> int:
    return sum(call.method == method and call.path.startswith(path) for _, call in stage.calls)


def test_a_script_is_named_by_the_token_runs_once_and_ends_with_its_machine():
    async def script(stage: Stage) -> None:
        made = await stage.launched()
        (written,) = stage.simulator.scripts.values()
        assert (written.name, written.text.encode(), written.run_once) == (stage.token(), USER_DATA, True)
        await stage.cloud.terminate(made.id)

        assert names(stage) == []

    play(PROVIDER, script)


def test_an_order_without_user_data_writes_no_script():
    async def script(stage: Stage) -> None:
        await stage.launched(user_data=b"")

        assert sends(stage, "POST", scripts.SCRIPTS) == 0

    play(PROVIDER, script)


def test_a_refused_order_leaves_no_script_behind():
    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
        await stage.raises(SoldOut, stage.cloud.launch(order))

        assert names(stage) == []

    play(PROVIDER, script)


def test_an_unknown_outcome_keeps_the_script_a_machine_may_boot_by():
    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        await stage.raises(OutcomeUnknown, stage.cloud.launch(order))
        assert names(stage) == [order.token]
        await stage.settle()
        (found,) = await stage.cloud.find(order.token)
        await stage.cloud.terminate(found.id)

        assert names(stage) == []

    play(PROVIDER, script)


def test_the_next_attempt_that_ends_takes_the_scripts_of_lost_ones_along():
    async def script(stage: Stage) -> None:
        order = await stage.order(stage.token(1, 1))
        stage.aim(CloudFault.ERROR, CloudVerb.LAUNCH)
        await stage.raises(OutcomeUnknown, stage.cloud.launch(order))
        made = await stage.launched(stage.token(1, 2))
        assert len(names(stage)) == 2
        await stage.cloud.terminate(made.id)

        assert names(stage) == []

    play(PROVIDER, script)


@pytest.mark.parametrize(("status", "content"), [(500, b"{}"), (200, b""), (502, b"<html></html>")])
def test_a_script_of_unknown_outcome_orders_nothing(status: int, content: bytes):
    """Nothing that pays was sent, so it is busy and not unknown."""

    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.instead(CloudVerb.OTHER, status, content)
        await stage.raises(CloudBusy, stage.cloud.launch(order))

        assert stage.count(CloudVerb.LAUNCH) == 0
        assert names(stage) == []

    play(PROVIDER, script)


def test_a_script_whose_answer_was_lost_is_found_by_its_name_and_removed():
    async def script(stage: Stage) -> None:
        order = await stage.order()

        async def written_and_lost(call: Call) -> None:
            await stage.simulator.handle(replace(call, headers=(("Authorization", f"Bearer {stage.key}"),)))

        body = {"name": order.token, "script": "secret", "isRunOnce": True}
        await written_and_lost(json_call("POST", scripts.SCRIPTS, body))
        stage.instead(CloudVerb.OTHER, 504, b"")
        await stage.raises(CloudBusy, stage.cloud.launch(order))

        assert names(stage) == []
        assert stage.count(CloudVerb.LAUNCH) == 0

    play(PROVIDER, script)


async def cut_off_before_the_machine(stage: Stage, token: str) -> None:
    """The operator's power fails between the two calls of an order: the script is written, no machine is ordered."""
    order = await stage.order(token)
    call = scripts.create(order)
    headers = (*call.headers, ("Authorization", f"Bearer {stage.key}"))
    assert (await stage.simulator.handle(replace(call, headers=headers))).ok
    assert names(stage) == [token]


def test_what_a_crash_between_script_and_machine_left_is_tidied_up():
    """When it is settled that no machine was launched, its secrets are removed from the provider."""

    async def script(stage: Stage) -> None:
        await cut_off_before_the_machine(stage, stage.token(1, 1))
        assert await stage.cloud.find(stage.token(1, 1)) == ()
        cloud = GuardedCloud(
            stage.cloud_of(stage.key), source="x", throttles=AccountThrottles(), entropy=SeededEntropy(1, "x")
        )
        assert isinstance(cloud, HasLeftovers)
        await cloud.cleanup(stage.token(1, 1))
        await cloud.cleanup(stage.token(1, 1))

        assert names(stage) == []

    play(PROVIDER, script)


def test_tidying_up_after_one_request_touches_no_other():
    async def script(stage: Stage) -> None:
        await stage.launched(stage.token(2, 1))
        assert isinstance(stage.cloud, HasLeftovers)
        await stage.cloud.cleanup(stage.token(1, 1))

        assert names(stage) == [stage.token(2, 1)]

    play(PROVIDER, script)


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_script_that_stays_is_told_of(status: int):
    async def script(stage: Stage) -> None:
        await cut_off_before_the_machine(stage, stage.token(1, 1))
        listed = await stage.simulator.handle(
            Call("GET", scripts.SCRIPTS, headers=(("Authorization", f"Bearer {stage.key}"),))
        )
        stage.instead(CloudVerb.OTHER, 200, listed.content)
        stage.instead(CloudVerb.OTHER, status, b"{}")
        assert isinstance(stage.cloud, HasLeftovers)
        await stage.raises(CloudBusy, stage.cloud.cleanup(stage.token(1, 1)))

    play(PROVIDER, script)


def test_providers_without_leftovers_are_asked_nothing():
    async def script(stage: Stage) -> None:
        cloud = GuardedCloud(stage.cloud, source="x", throttles=AccountThrottles(), entropy=SeededEntropy(1, "x"))
        assert isinstance(cloud, HasLeftovers)
        await cloud.cleanup(stage.token(1, 1))

        assert stage.calls == []

    play(VULTR, script)


def test_user_data_that_is_no_text_is_refused_before_anything_is_sent():
    async def script(stage: Stage) -> None:
        order = await stage.order(user_data=b"\xff\xfe")
        await stage.raises(OrderRefused, stage.cloud.launch(order))

        assert (stage.count(CloudVerb.LAUNCH), names(stage)) == (0, [])

    play(PROVIDER, script)


def test_a_failure_to_tidy_up_does_not_undo_the_end_of_a_machine():
    async def script(stage: Stage) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.OTHER, 500, b"{}", times=9)
        await stage.cloud.terminate(made.id)
        await stage.wait_for_endings()

        assert stage.machines() == []

    play(PROVIDER, script)


def test_templates_that_cannot_be_read_keep_an_order_from_leaving():
    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.instead(CloudVerb.OFFERS, 200, b"<html></html>")
        await stage.raises(CloudBusy, stage.cloud.launch(order))

        assert (stage.count(CloudVerb.LAUNCH), names(stage)) == (0, [])

    play(PROVIDER, script)


def test_a_refused_script_is_told_without_the_providers_words():
    async def script(stage: Stage) -> None:
        order = await stage.order()
        told = b'{"code": "BAD_REQUEST", "message": "script: join-secret-of-the-cluster is not allowed"}'
        stage.instead(CloudVerb.OTHER, 400, told)
        error = await stage.raises(OrderRefused, stage.cloud.launch(order))

        assert "join-secret" not in str(error)
        assert stage.count(CloudVerb.LAUNCH) == 0

    play(PROVIDER, script)
