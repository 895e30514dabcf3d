"""The account: sums are the sums over spans, whatever comes in whichever order, and nothing is refunded."""

import random
import tracemalloc
import zlib
from base64 import b64encode

import numpy as np
import pytest

from tests.amounts import amount
from tgp.api.budget import ACCOUNT_MAX
from tgp.core.budgets.account import (
    BUCKETS,
    HOURS_KEPT,
    MOST_STAYING,
    REST,
    UNSURE,
    USD,
    USED,
    BudgetAccount,
    OpenPod,
    fresh,
    take_up,
    width_of,
)
from tgp.core.budgets.packing import (
    AHEAD,
    MOST_PODS,
    MOST_UNPACKED,
    NewerAccount,
    NotAnAccount,
    pack,
    packed_to_fit,
    unpack,
)
from tgp.core.budgets.period import Period
from tgp.core.budgets.spans import Sighting

NOW = 1_800_000_000 // 3600 * 3600
DAY = 86_400


def uid(number: int) -> bytes:
    return number.to_bytes(6, "big")


def truth(spans: list[tuple[int, int, int]], begin: int, end: int) -> int:
    return sum(milli * max(0, min(end, to) - max(begin, since)) for since, to, milli in spans)


def spans_of(luck: random.Random, many: int, *, until: int = NOW) -> list[tuple[int, int, int]]:
    found = []
    for _ in range(many):
        end = until - luck.randrange(0, 2 * DAY)
        found.append((end - luck.choice((1, 30, 600, 7200, DAY)), end, luck.choice((100, 1000, 8000))))
    return found


@pytest.mark.parametrize("hours", [1, 24, 720, 8784])
@pytest.mark.parametrize("seed", range(amount(2, 10)))
def test_at_every_edge_use_is_the_sum_over_spans_and_in_between_never_below_it(hours, seed):
    luck = random.Random(f"{hours}/{seed}")
    account, spans = fresh(hours, NOW), spans_of(luck, 60)
    for since, to, milli in spans:
        account.charge(USED, since, to, milli)
    w = account.width
    for _ in range(40):
        at = NOW + luck.randrange(0, 2 * account.window)
        edge = at // w * w
        if edge >= NOW:
            assert account.closed(USED, edge) == truth(spans, edge - account.window, edge)
        assert account.closed(USED, at) >= truth(spans, at - account.window, at)
        oldest = int(account.sums[USED, min(max(at // w - account.newest, 0), BUCKETS)])
        assert account.closed(USED, at) <= truth(spans, at - account.window, at) + oldest


@pytest.mark.parametrize("seed", range(amount(3, 20)))
def test_many_at_once_are_the_same_as_one_by_one_and_a_split_changes_nothing(seed):
    luck = random.Random(seed)
    one, many, cut = (fresh(24, NOW) for _ in range(3))
    spans = spans_of(luck, 200)
    for since, to, milli in spans:
        one.charge(USED, since, to, milli)
        middle = luck.randrange(since, to)
        cut.charge(USED, since, middle, milli)
        cut.charge(USED, middle, to, milli)
    many.fold(USED, *(np.array(column, np.int64) for column in zip(*spans, strict=True)))
    assert (one.sums == many.sums).all()
    assert (one.peaks == many.peaks).all()
    assert (one.sums == cut.sums).all()
    assert (one.hourly == cut.hourly).all()


def test_time_that_moves_on_drops_only_what_left_the_window():
    moved, still = fresh(24, NOW), fresh(24, NOW)
    spans = spans_of(random.Random(1), 100)
    for account in (moved, still):
        for since, to, milli in spans:
            account.charge(USED, since, to, milli)
    for step in range(0, 30 * 3600, 977):
        moved.advance(NOW + step)
        assert moved.closed(USED, NOW + step) == still.closed(USED, NOW + step)


@pytest.mark.parametrize("seed", range(amount(3, 20)))
def test_packing_loses_nothing(seed):
    luck = random.Random(seed)
    account = fresh(luck.choice((1, 24, 720)), NOW)
    account.version = 77
    for since, to, milli in spans_of(luck, 50 if seed else 0):
        account.charge(luck.choice((USED, USD, UNSURE)), since, to, milli)
    for number in range(20 * seed):
        start = None if number % 3 == 0 else NOW - luck.randrange(DAY)
        pod = OpenPod(start, 1000, None if number % 2 else 5, None if number % 5 else NOW)
        account.open[uid(number)] = pod if number % 4 else pod.cut(NOW)
    account.ended = {uid(900 + number): NOW for number in range(seed)}
    back = unpack(pack(account))
    for name in ("sums", "peaks", "hourly"):
        assert (getattr(back, name) == getattr(account, name)).all()
    for name in ("width", "at", "version", "open", "ended", "newest", "newest_hour"):
        assert getattr(back, name) == getattr(account, name)


def test_an_idle_account_is_short_and_a_busy_one_fits():
    assert len(pack(fresh(24, NOW))) < 140
    luck, account = random.Random(1), fresh(720, NOW)
    for _ in range(5000 * 30):
        end = NOW - luck.randrange(30 * DAY)
        account.charge(USED, end - 1200, end, 1000)
        account.charge(USD, end - 1200, end, 2_490_000)
    for _ in range(500):
        account.open[luck.randbytes(6)] = OpenPod(NOW - luck.randrange(DAY), 1000, 2_490_000)
    assert len(pack(account)) <= 16_384
    for _ in range(4500):
        account.open[luck.randbytes(6)] = OpenPod(NOW - luck.randrange(DAY), 1000, 2_490_000)
    assert len(pack(account)) <= 96 * 1024


def a_crowd(pods: int) -> BudgetAccount:
    """So different pods that no two of them share a byte."""
    luck, account = random.Random(2), fresh(24, NOW)
    for number in range(pods):
        start = NOW - luck.randrange(100, DAY)
        account.open[uid(number)] = OpenPod(start, luck.randrange(10**6, 10**9), luck.randrange(10**6, 10**9))
    return account


def test_more_open_pods_than_the_field_holds_are_charged_as_one_the_smallest_first():
    account = a_crowd(20_000)
    text, as_one = packed_to_fit(account)
    assert len(text) <= ACCOUNT_MAX
    assert 0 < as_one < 20_000
    back = unpack(text)
    kept = {each for each in back.open if each != REST}
    assert len(kept) == 20_000 - as_one
    smallest = max(account.open[each].milli for each in account.open if each not in kept)
    assert smallest <= min(back.open[each].milli for each in kept)
    for series in (USED, USD):
        for later in (0, 4800):
            assert back.used(series, NOW + later) == account.used(series, NOW + later), "a reader sees the same"
    assert packed_to_fit(a_crowd(100))[1] == 0
    assert len(account.open) == 20_000, "only the copy is smaller"


def test_pods_that_were_charged_as_one_are_known_again_and_the_rest_of_them_is_unsure():
    account = a_crowd(20_000)
    text, _ = packed_to_fit(account)
    gone = min(account.open, key=lambda each: account.open[each].milli)
    listed = [Sighting(each, pod.milli, pod.start, rate=pod.rate) for each, pod in account.open.items() if each != gone]
    back, later = unpack(text), NOW + 600
    take_up(back, listed, later, alive_until=NOW, seen={})
    assert back.open.keys() == account.open.keys() - {gone}
    assert back.used(USED, later) == account.used(USED, later)
    assert back.used(UNSURE, later) == account.open[gone].milli * 600
    assert back.used(USED, later + 120) == account.used(USED, later + 120) - account.open[gone].milli * 120


@pytest.mark.parametrize("damage", ["", "x", "1.", "1.AAAA", "1.!!!", "nonsense", "².AAAA"])
def test_a_damaged_account_is_said_to_be_none(damage):
    with pytest.raises(NotAnAccount):
        unpack(damage)


FORGED = {
    "no width": {"width": 0},
    "a width below nothing": {"width": -3600},
    "a width beyond all windows": {"width": 10**12},
    "a moment before the epoch": {"at": -5, "newest": -1, "newest_hour": -1},
    "a moment that no calendar knows": {"at": 2**62, "period": Period("Month")},
    "a zone that does not exist": {"period": Period("Day", "Mars/Olympus")},
    "buckets of tomorrow": {"newest": 2**40},
    "hours of tomorrow": {"newest_hour": 2**40},
    "a negative sum": {"sums": np.full((4, BUCKETS + 1), -1)},
    "a negative hour": {"hourly": np.full((4, HOURS_KEPT + 1), -1)},
    "sums beyond 64 bits": {"sums": np.full((4, BUCKETS + 1), 2**61)},
    "a pod that starts tomorrow": {"open": {uid(1): OpenPod(NOW + DAY, 1000)}},
    "a pod that gives hours back": {"open": {uid(1): OpenPod(NOW - DAY, -1000)}},
    "a pod that ended in a year": {"ended": {uid(1): NOW + 365 * DAY}},
    "a reset in a year": {"reset_at": NOW + 365 * DAY},
    "more pods than fit": {"open": {uid(number): OpenPod(None, 1000) for number in range(MOST_PODS + 1)}},
}


@pytest.mark.parametrize("case", FORGED)
def test_an_account_that_would_count_wrong_or_never_is_none(case):
    account = fresh(24, NOW)
    for name, value in FORGED[case].items():
        setattr(account, name, value)
    with pytest.raises(NotAnAccount):
        unpack(pack(account))


def test_an_account_that_unpacks_to_more_than_any_is_none():
    """A megabyte of characters would be 600 MB of memory."""
    document = bytes(64 * 2**20)
    body = zlib.crc32(document).to_bytes(4, "big") + zlib.compress(document)
    tracemalloc.start()
    with pytest.raises(NotAnAccount, match="more than any account"):
        unpack(f"1.{b64encode(body).decode()}")
    assert tracemalloc.get_traced_memory()[1] < 4 * MOST_UNPACKED
    tracemalloc.stop()


def test_an_account_that_lies_ahead_of_the_clock_is_none():
    text = pack(fresh(24, NOW))
    assert unpack(text, NOW - AHEAD).at == NOW
    with pytest.raises(NotAnAccount):
        unpack(text, NOW - AHEAD - 1)


def test_one_changed_character_is_noticed_and_a_newer_version_is_left_alone():
    text = pack(fresh(24, NOW))
    with pytest.raises(NotAnAccount):
        unpack(text[:-3] + ("A" if text[-3] != "A" else "B") + text[-2:])
    with pytest.raises(NewerAccount):
        unpack("2" + text[1:])


def test_a_longer_window_refunds_nothing_and_a_shorter_one_neither():
    account = fresh(24, NOW)
    account.charge(USED, NOW - 20 * DAY, NOW - 20 * DAY + 3600, 1000)
    account.charge(USED, NOW - 600, NOW, 1000)
    assert account.used(USED, NOW) == 600_000
    longer = account.with_window(720 * 5)
    assert longer.used(USED, NOW) == 4_200_000
    assert longer.with_window(5).used(USED, NOW) == 600_000
    assert HOURS_KEPT == 744


@pytest.mark.parametrize("hours", [2161, 4000, 8784])
@pytest.mark.parametrize("before", [2160, 2200, 8000])
def test_another_long_window_keeps_what_is_older_than_the_hours(before, hours):
    account, spans = fresh(before, NOW), []
    luck = random.Random(f"{before}/{hours}")
    for _ in range(100):
        since = NOW - luck.randrange(DAY, 85 * DAY)
        spans.append((since, since + luck.choice((60, 7200, DAY)), 1000))
        account.charge(USED, *spans[-1])
    changed, lasts = account.with_window(fresh(hours, NOW).width), 24 * 3600 * 1000
    for at in (NOW, NOW + 3 * DAY, NOW + 30 * DAY, NOW + 80 * DAY):
        real = truth(spans, at - changed.window, at)
        assert real <= changed.used(USED, at) <= real + lasts, "no more than what one bucket and one hour hold"
    assert changed.used(USED, NOW + 9000 * 3600) == 0


@pytest.mark.parametrize("seed", range(amount(10, 200)))
def test_use_never_falls_but_by_the_window_or_a_reset(seed):
    """Whatever is seen, cut, closed, packed, taken up or counted by another window."""
    luck = random.Random(seed)
    hours = luck.choice((1, 24, 720, 2160))
    account, now = fresh(hours, NOW), NOW
    for _ in range(60):
        now += luck.choice((1, 30, 600, 7200, 5 * DAY))
        left = account.used(USED, now)
        number = luck.randrange(6)
        held = account.open.get(uid(number))
        match luck.randrange(7):
            case 0 | 1:
                milli = luck.choice((500, 1000))
                account.see(Sighting(uid(number), milli, now, None), now)
            case 2 if held is not None:
                account.see(Sighting(uid(number), held.milli, held.start, now), now)
            case 3:
                account.close_open(now)
            case 4:
                account = unpack(pack(account))
            case 5:
                longer = luck.choice([each for each in (1, 24, 720, 2160, 2161, 8784) if each >= hours])
                account, hours = account.with_window(width_of(longer)), longer
            case 6:
                listed = [Sighting(each, pod.milli, pod.start, None) for each, pod in account.open.items()]
                take_up(account, listed[1:], now, alive_until=now, seen={})
            case _:
                account.advance(now)
        assert account.used(USED, now) >= left
    account.reset(now)
    assert account.used(USED, now) == 0


def test_a_resize_or_a_new_price_cuts_the_span_there():
    account = fresh(24, NOW)
    account.see(Sighting(uid(1), 1000, NOW, rate=100), NOW)
    assert account.see(Sighting(uid(1), 2000, NOW, rate=100), NOW + 100)
    assert account.see(Sighting(uid(1), 2000, NOW, rate=None), NOW + 200)
    assert not account.see(Sighting(uid(1), 2000, NOW, rate=None), NOW + 250), "nothing has changed"
    pod = account.open[uid(1)]
    assert pod.used(NOW - 50, NOW + 300) == 500_000, "of the pod all of it is known"
    assert pod.used(NOW + 100, NOW + 300) == 350_000, "of a window half of what was before the cut"
    assert pod.used(NOW + 250, NOW + 300) == 100_000
    account.see(Sighting(uid(1), 2000, NOW, NOW + 300), NOW + 300)
    assert account.used(USED, NOW + 300) == 500_000
    assert account.used(USD, NOW + 300) == 20_000


def test_a_pod_that_ended_is_never_counted_again():
    account = fresh(24, NOW)
    ended = Sighting(uid(1), 1000, NOW - 100, NOW)
    assert account.see(ended, NOW)
    assert not account.see(ended, NOW)
    assert not account.see(Sighting(uid(1), 1000, NOW - 100), NOW)
    assert account.used(USED, NOW) == 100_000


WRITTEN = NOW - 600
ALIVE = NOW - 300
TABLE = [
    ("open, running: goes on from its recorded start", OpenPod(WRITTEN - 100, 1000), (WRITTEN - 50, None), 700, 0, 1),
    ("open, finished: its own end", OpenPod(WRITTEN - 100, 1000), (WRITTEN - 50, WRITTEN + 10), 110, 0, 0),
    ("never started, running: its own start", OpenPod(None, 1000), (WRITTEN + 50, None), 550, 0, 1),
    ("never started, finished: its own both", OpenPod(None, 1000), (WRITTEN + 50, WRITTEN + 60), 10, 0, 0),
    ("open, gone: until now, sure while watched", OpenPod(WRITTEN - 100, 1000), None, 700, 300, 0),
    ("gone from a silent Node", OpenPod(WRITTEN - 100, 1000, None, WRITTEN - 40), None, 700, 640, 0),
    ("open, ended just before the write", OpenPod(WRITTEN - 100, 1000), (WRITTEN - 99, WRITTEN - 30), 70, 0, 0),
    (
        "open, ended long before it: a wrong clock",
        OpenPod(WRITTEN - 100, 1000),
        (WRITTEN - 99, WRITTEN - 61),
        700,
        300,
        0,
    ),
    ("never started, started long before: a wrong clock", OpenPod(None, 1000), (WRITTEN - 5000, None), 600, 0, 1),
    ("never started, both long before", OpenPod(None, 1000), (WRITTEN - 5000, WRITTEN - 4000), 600, 600, 0),
    ("never started and gone: it may have run since", OpenPod(None, 1000), None, 600, 600, 0),
    ("ended: nothing", "ended", (WRITTEN - 90, WRITTEN - 10), 0, 0, 0),
    ("ended, and short: nothing", "ended", (WRITTEN - 50, WRITTEN - 10), 0, 0, 0),
    ("finished before: it was counted", None, (WRITTEN - 500, WRITTEN - 60), 0, 0, 0),
    ("finished later: all of it", None, (WRITTEN - 30, WRITTEN - 20), 10, 0, 0),
    ("came and went: all of it", None, (WRITTEN + 10, WRITTEN + 30), 20, 0, 0),
    ("running, new: from its start", None, (WRITTEN + 10, None), 590, 0, 1),
    ("running since long: from the write", None, (WRITTEN - 5000, None), 600, 0, 1),
    ("finished later, ran since long: from the write", None, (WRITTEN - 5000, WRITTEN + 7), 7, 0, 0),
]


@pytest.mark.parametrize(
    ("held", "shown", "used", "unsure", "left"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_rule_of_taking_an_account_up(held, shown, used, unsure, left):
    account = fresh(24, WRITTEN)
    if held == "ended":
        account.ended[uid(1)] = WRITTEN - 10
    elif held is not None:
        account.open[uid(1)] = held
    listed = [] if shown is None else [Sighting(uid(1), 1000, *shown)]
    account = unpack_of(account)
    take_up(account, listed, NOW, alive_until=ALIVE, seen={})
    assert account.used(USED, NOW) == used * 1000
    assert account.used(UNSURE, NOW) == unsure * 1000
    assert len(account.open) == left


def test_what_the_accounts_own_list_showed_finished_is_in_it_whatever_a_kubelets_clock_says():
    account = fresh(24, WRITTEN)
    account.version = 500
    future = Sighting(uid(1), 1000, NOW - 10, NOW)
    take_up(account, [future], NOW, alive_until=ALIVE, seen={uid(1): 499})
    assert account.used(USED, NOW) == 0


@pytest.mark.parametrize(("version", "used", "unsure"), [(499, 0, 0), (500, 0, 0), (501, 610, 610)])
def test_a_pod_that_was_shown_as_ended_and_runs_by_a_later_state_goes_on(version, used, unsure):
    account = fresh(24, WRITTEN)
    account.version = 500
    account.ended[uid(1)] = WRITTEN - 10
    take_up(account, [Sighting(uid(1), 1000, WRITTEN - 90)], NOW, alive_until=ALIVE, seen={uid(1): version})
    assert (account.used(USED, NOW), account.used(UNSURE, NOW)) == (used * 1000, unsure * 1000)


OFF = {
    "never": (None, 610),
    "from its end": ((WRITTEN - 10, NOW - 100), 100),
    "before its end": ((WRITTEN - 20, NOW - 100), 100),
    "later": ((WRITTEN, NOW - 100), 110),
    "and on again before its end": ((WRITTEN - 20, WRITTEN - 10), 610),
}


@pytest.mark.parametrize("case", OFF)
def test_a_pod_whose_machine_ended_and_whose_node_reports_goes_on_without_the_time_it_was_off(case):
    off, used = OFF[case]
    account = fresh(24, WRITTEN)
    account.ended[uid(1)] = WRITTEN - 10
    take_up(account, [Sighting(uid(1), 1000, WRITTEN - 90)], NOW, alive_until=ALIVE, seen={}, returned={uid(1): off})
    assert account.used(USED, NOW) == used * 1000


def test_an_open_pod_whose_machine_was_off_while_no_leader_watched_does_not_count_that_time():
    account = fresh(24, WRITTEN)
    account.open[uid(1)] = OpenPod(WRITTEN - 100, 1000)
    off = (WRITTEN + 100, NOW - 100)
    take_up(account, [Sighting(uid(1), 1000, 0)], NOW, alive_until=ALIVE, seen={}, returned={uid(1): off})
    assert account.used(USED, NOW) == 300 * 1000
    older = fresh(24, WRITTEN)
    older.open[uid(1)] = OpenPod(WRITTEN - 100, 1000)
    off = (WRITTEN - 61, NOW - 100)
    take_up(older, [Sighting(uid(1), 1000, 0)], NOW, alive_until=ALIVE, seen={}, returned={uid(1): off})
    assert older.used(USED, NOW) == 700 * 1000, "the leader that wrote it knew better"


def test_pods_that_ended_with_their_machine_are_remembered_up_to_a_bound():
    account = fresh(24, WRITTEN)
    for number in range(MOST_STAYING + 1):
        account.stay(uid(number), WRITTEN - 10)
    account.advance(WRITTEN + DAY)
    again = unpack_of(account)
    assert again.ended == {uid(number): WRITTEN - 10 for number in range(MOST_STAYING)}
    assert len(pack(account)) < 20_000
    again.advance(again.at + 1)
    assert not again.ended, "unless the pods are listed"
    account.leave(uid(0))
    account.advance(account.at + 1)
    assert len(account.ended) == MOST_STAYING - 1


def test_taking_up_twice_counts_nothing_twice():
    account = fresh(24, WRITTEN)
    account.open[uid(1)] = OpenPod(WRITTEN - 100, 1000)
    listed = [Sighting(uid(2), 1000, WRITTEN + 10, WRITTEN + 30), Sighting(uid(3), 1000, WRITTEN + 10)]
    take_up(account, listed, NOW, alive_until=ALIVE, seen={})
    before = account.used(USED, NOW)
    again = unpack_of(account)
    take_up(again, listed, NOW, alive_until=ALIVE, seen={})
    assert again.used(USED, NOW) == before


def unpack_of(account: BudgetAccount) -> BudgetAccount:
    return unpack(pack(account))
