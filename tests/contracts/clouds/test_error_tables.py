"""What all providers' tables of error answers have in common: what is not in the table is unknown."""

from datetime import timedelta
from importlib import import_module

import pytest

from tgp.adapters.clouds.error_answers import NOT_NOW_PAUSE, ErrorTable, Row, Said
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.http import Reply

NO = Said("no", "full", "there is no room")
TABLE = ErrorTable(
    "Acme",
    orders=(
        Row(SoldOut, (409,), ("full",), advice="sold out"),
        Row(AccountExhausted, (402,), texts=("no room", "no money")),
        Row(OrderRefused, (400,), without=("no room",)),
        Row(CloudBusy, (423,)),
        Row(KeyRefused, (401,)),
    ),
    looks=(Row(KeyRefused, (401,)),),
    busy=(408,),
    trouble_pause=timedelta(seconds=9),
)
MODULES = ("gcp.errors", "lambdalabs.errors", "paperspace.errors", "runpod.errors", "simulated.wire", "vast.errors")
TABLES = [import_module(f"tgp.adapters.clouds.{name}").ERRORS for name in (*MODULES, "vultr.errors")]


@pytest.mark.parametrize(
    ("status", "said", "error"),
    [
        (409, NO, SoldOut),
        (409, Said("no", "other"), OutcomeUnknown),
        (409, None, OutcomeUnknown),  # a proxy's
        (410, NO, OutcomeUnknown),
        (402, NO, AccountExhausted),
        (402, Said("no", text="other"), OutcomeUnknown),
        (400, NO, OutcomeUnknown),
        (400, Said("no"), OrderRefused),
        (423, NO, CloudBusy),
        (429, None, CloudBusy),  # whatever wrote it: nothing was done
        (500, NO, OutcomeUnknown),
    ],
)
def test_only_what_is_in_the_table_means_that_nothing_was_made(status: int, said: Said | None, error: type):
    assert type(TABLE.after_order(Reply(status, b""), said, "an order")) is error


@pytest.mark.parametrize("status", [400, 401, 402, 409, 423, 429])
def test_an_answer_that_names_a_machine_is_never_a_refusal(status: int):
    error = TABLE.after_order(Reply(status, b""), NO, "an order", "i-1")

    assert isinstance(error, OutcomeUnknown)
    assert error.instance_id == "i-1"


def test_a_refused_termination_is_tried_again():
    for status, error in ((409, CloudBusy), (402, CloudBusy), (401, KeyRefused), (410, OutcomeUnknown)):
        assert type(TABLE.after_end(Reply(status, b""), NO, "the end")) is error
    refused = TABLE.after_end(Reply(409, b""), NO, "the end")
    assert isinstance(refused, CloudBusy)
    assert refused.retry_after == NOT_NOW_PAUSE


@pytest.mark.parametrize(
    ("status", "error"), [(401, KeyRefused), (408, CloudBusy), (409, CannotTell), (429, CloudBusy), (503, CloudBusy)]
)
def test_a_failed_read_proves_nothing(status: int, error: type):
    assert type(TABLE.after_look(Reply(status, b""), NO, "the list")) is error


def test_a_provider_says_how_long_to_wait():
    asked = (("Retry-After", "4"),)
    for reply, seconds in ((Reply(503, b"", asked), 4), (Reply(503, b""), 9), (Reply(429, b"", asked), 4)):
        error = TABLE.after_look(reply, None, "the list")
        assert isinstance(error, CloudBusy)
        assert error.retry_after == timedelta(seconds=seconds)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_no_row_is_about_a_success_or_a_failure_of_the_server(table: ErrorTable):
    """Something may have been made then, whatever the answer says."""
    listed = {status for row in (*table.orders, *table.ends) for status in row.statuses}

    assert listed <= set(range(400, 500))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_row_is_reached(table: ErrorTable):
    """A row after one that fits everything it fits would never count."""
    for rows in (table.orders, table.looks, table.ends):
        for place, row in enumerate(rows):
            earlier = [each for each in rows[:place] if not (each.codes or each.texts or each.without)]
            assert not row.statuses or set(row.statuses) - {status for each in earlier for status in each.statuses}
