"""The table of cloud accounts: who is written into it, when, and for how long it is remembered."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from tests.core.controllers.account_access import (
    ACME,
    VULTR,
    HandClock,
    Memory,
    a_machine,
    a_record,
    a_token,
    an_attempt,
)
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tgp.adapters.kube.store import Store
from tgp.api.nodeclass import ProviderSettings
from tgp.api.request import ChosenOffer
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.instances import accounts as table
from tgp.controllers.instances.accounts import REMEMBERED_FOR, REVIEW, AccountTable, TableFull
from tgp.controllers.instances.cache import InstanceSnapshot
from tgp.controllers.requests.indexes import INDEXES
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import account_of, line_of, read_line
from tgp.core.model.facts import KeyRotated
from tgp.ports.cluster import ClusterBusy

LAMBDA = AccountAccess("lambdalabs", "keys", "LAMBDA")
OLD = account_of(LAMBDA, "key:old")


class AccountSetup:
    def __init__(self, *known) -> None:
        self.clock, self.journal, self.config_map = HandClock(), Memory(), MemoryConfigMap(*known)
        self.requests = Store(GPU_REQUEST, INDEXES)
        self.accounts: AccountTable = accounts_on(self.config_map, self.requests, self.clock, self.journal)

    async def seen(self, access, identity, *machines, from_class=False, **rest) -> None:
        snapshot = InstanceSnapshot(identity, self.clock.seconds, machines, **rest)
        await self.accounts.seen(access, snapshot, from_class=from_class)


def test_a_line_reads_back_as_the_same_account_and_holds_no_secret():
    settings = ProviderSettings(endpoint="https://there", project="p")
    account = replace(account_of(AccountAccess("gcp", "keys", "GCP", settings), "p-1"), witnesses=("t",))
    assert read_line(line_of(account)) == account
    assert read_line("{not json") is None
    assert account.id == account_of(AccountAccess("gcp", "keys", "GCP", settings), "p-1").id
    assert len({account_of(LAMBDA, identity).id for identity in ("", "a", "b")} | {ACME.id}) == 4


async def test_an_account_is_recorded_before_anything_is_reserved_in_it_and_written_once():
    setup = AccountSetup()
    first = await setup.accounts.ensure(VULTR, "acme", a_token(1))
    again = await setup.accounts.ensure(VULTR, "acme", a_token(2))

    assert first == again == ACME
    assert setup.config_map.data == {ACME.id: line_of(ACME)}
    assert len(setup.config_map.writes) == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"account": "vultr-000000000000"},
        {"account": None},
        {"account": line_of(ACME)},
        {"offer": ChosenOffer(provider="webhook", instance_type="box")},
    ],
    ids=str,
)
def test_what_names_no_account_that_was_used_does_not_resolve(forged):
    setup = AccountSetup(ACME)
    assert setup.accounts.of(an_attempt(1)) == ACME
    assert setup.accounts.of(replace(an_attempt(1), **forged)) is None


async def test_a_machine_that_a_user_owns_resolves_for_the_token_it_was_reserved_for():
    machine = {"name": "box", "gpuCount": 1, "scaleUpEndpoint": "http://b/on", "scaleDownEndpoint": "http://b/off"}
    box = AccountAccess("webhook", settings=msgspec.convert({"machines": [machine]}, ProviderSettings))
    setup = AccountSetup()
    account = await setup.accounts.ensure(box, "webhook:owned", a_token(1))
    offer = ChosenOffer(provider="webhook", instance_type="box")
    mine, theirs = (replace(an_attempt(number), offer=offer, account=account.id) for number in (1, 2))

    assert setup.accounts.of(mine) == account
    assert setup.accounts.of(theirs) is None
    with pytest.raises(ClusterBusy):
        await setup.accounts.ensure(box, "webhook:owned", a_token(2))
    setup.clock.seconds += table.TAKEN_FOR
    assert (await setup.accounts.ensure(box, "webhook:owned", a_token(2))).holder == a_token(2)


async def test_an_account_is_forgotten_a_day_after_it_was_first_seen_empty():
    setup = AccountSetup(ACME)
    await setup.seen(VULTR, "acme", a_machine(1))
    await setup.seen(VULTR, "acme", gap="the second page did not come")
    await setup.seen(VULTR, "another account")
    assert setup.accounts.get(ACME.id).empty_since is None, "none of these shows it empty"

    await setup.seen(VULTR, "acme")
    await setup.accounts.reconcile(REVIEW)
    assert setup.accounts.get(ACME.id).empty_since is not None
    setup.clock.seconds += REMEMBERED_FOR.total_seconds()
    await setup.accounts.reconcile(REVIEW)
    assert setup.accounts.known() == ()
    assert setup.config_map.data == {}


async def test_an_account_that_a_request_names_is_not_forgotten():
    setup = AccountSetup(replace(ACME, empty_since=HandClock().now() - timedelta(days=9)))
    setup.requests.put(a_record(1, an_attempt(1)))
    await setup.accounts.reconcile(REVIEW)
    await setup.seen(VULTR, "acme")

    assert setup.accounts.get(ACME.id).empty_since is None


async def test_a_new_key_that_lists_a_machine_of_the_old_one_is_the_same_account_and_reported_once():
    setup = AccountSetup(OLD)
    await setup.seen(LAMBDA, "key:old", a_machine(1), a_machine(2))
    for _ in range(3):
        await setup.seen(LAMBDA, "key:new", a_machine(2))

    assert setup.accounts.get(OLD.id).identities == ("key:old", "key:new")
    assert setup.journal == [KeyRotated(LAMBDA.name, "key:old", "key:new")]
    assert (await setup.accounts.ensure(LAMBDA, "key:new", a_token(3))).id == OLD.id


@pytest.mark.parametrize(
    ("access", "identity", "listing"),
    [
        (LAMBDA, "key:new", {"machines": ()}),
        (LAMBDA, "key:new", {"machines": (a_machine(7),)}),
        (LAMBDA, "key:new", {"machines": (a_machine(1),), "gap": "half a list"}),
        (VULTR, "other", {"machines": (a_machine(1),)}),
    ],
)
async def test_a_key_of_which_that_is_not_shown_belongs_to_another_account(access, identity, listing):
    """A tenant may have written the account into its own attempt: only what was listed before is a witness."""
    setup = AccountSetup(OLD, ACME)
    own = {LAMBDA.name: "key:old", VULTR.name: "acme"}[access.name]
    await setup.seen(access, own, a_machine(1))
    setup.requests.put(a_record(7, replace(an_attempt(7), account=account_of(access, own).id)))
    await setup.seen(access, identity, *listing.pop("machines"), **listing)

    assert not setup.accounts.get(account_of(access, own).id).includes(identity)
    assert setup.journal == []


async def test_a_lost_line_is_written_again_from_a_class_that_names_the_same_account():
    setup = AccountSetup()
    setup.requests.put(a_record(1, an_attempt(1)))
    await setup.seen(VULTR, "acme", from_class=False)
    assert setup.accounts.known() == ()
    await setup.seen(VULTR, "acme", from_class=True)
    assert setup.accounts.known() == (ACME,)


async def test_after_the_history_of_the_api_server_went_back_every_line_is_written_again():
    """The table was restored with the rest: what was bought since is known to this process and nowhere else."""
    setup = AccountSetup()
    await setup.accounts.ensure(VULTR, "acme", a_token(1))
    setup.config_map.data.clear()
    await setup.accounts.reconcile(REVIEW)
    assert setup.config_map.data == {}, "no event says so"
    setup.accounts.start_over()
    await setup.accounts.reconcile(REVIEW)

    assert setup.config_map.data == {ACME.id: line_of(ACME)}


async def test_a_full_table_forgets_what_is_empty_first_and_refuses_another_account_otherwise(monkeypatch):
    monkeypatch.setattr(table, "MOST_ACCOUNTS", 2)
    setup = AccountSetup(ACME, replace(OLD, empty_since=HandClock().now()))
    another = await setup.accounts.ensure(LAMBDA, "key:third", a_token(1))
    assert {each.id for each in setup.accounts.known()} == {ACME.id, another.id}
    with pytest.raises(TableFull):
        await setup.accounts.ensure(LAMBDA, "key:fourth", a_token(1))
