"""Which offers serve a wish, in which order, and why the others do not."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import DOLLAR, NOW, PATIENT, AListing, a_book, an_offer, offers_of
from tgp.core.model.book import PriceBook, Row
from tgp.core.model.gpus import members
from tgp.core.model.marks import Marks
from tgp.core.model.offer import CONTAINER_ONLY, BootMode, Stock, Trust
from tgp.core.model.regions import region_fits
from tgp.core.model.wish import Door, Kinds, PassedOver, Selection, Wish
from tgp.core.rules.benching import account_failed, failed
from tgp.core.rules.ranking import rank

A100 = Wish(models=("A100",), gpu_count=1)
FAILED = failed(Marks(), an_offer("bad", host="h1"), "sold out", NOW - timedelta(minutes=4))
EMPTY = account_failed(Marks(), an_offer(), "acme#12345678", "no credit", NOW)
LOST = failed(failed(Marks(), an_offer(), "x", NOW, never_joined=True), an_offer("b"), "x", NOW, never_joined=True)


def skus(ranking) -> list[str]:
    return [row.offer.sku for row in ranking]


@pytest.mark.parametrize(
    ("offer", "wish", "reason"),
    [
        ({}, Wish(doors={"other": Door()}), PassedOver.NOT_IN_CLASS),
        ({}, Wish(doors={}), PassedOver.NOT_IN_CLASS),
        ({}, Wish(doors={"acme": Door(enabled=False)}), PassedOver.DISABLED),
        ({}, Wish(provider="other"), PassedOver.ANOTHER_OFFER),
        ({}, Wish(instance_type="b"), PassedOver.ANOTHER_OFFER),
        ({"type_name": "big"}, Wish(instance_type="a"), PassedOver.ANOTHER_OFFER),
        ({}, Wish(models=("H100",)), PassedOver.WRONG_GPU),
        ({"gpu": "A100"}, Wish(models=("A100-80GB",)), PassedOver.WRONG_GPU),
        ({}, Wish(gpu_count=2), PassedOver.WRONG_COUNT),
        ({"gpu_count": 2}, Wish(gpu_count=1), PassedOver.WRONG_COUNT),
        ({}, Wish(min_gpu_memory_gib=81), PassedOver.LITTLE_GPU_MEMORY),
        ({"arch": "arm64"}, Wish(arch="amd64"), PassedOver.WRONG_ARCH),
        ({}, Wish(min_vcpus=17), PassedOver.FEW_VCPUS),
        ({"vcpus": 0}, Wish(min_vcpus=1), PassedOver.FEW_VCPUS),
        ({}, Wish(min_memory_gib=129), PassedOver.LITTLE_MEMORY),
        ({"vcpus": 0, "memory_gib": 0, "sized_by_order": True}, Wish(min_vcpus=64, min_memory_gib=512), None),
        ({"spot": True}, Wish(), PassedOver.SPOT_NOT_ALLOWED),
        ({}, Wish(kinds=Kinds.SPOT), PassedOver.NOT_SPOT),
        ({}, Wish(regions=("us-east", "DE")), PassedOver.WRONG_REGION),
        ({}, Wish(regions=("us-west",), class_regions=("us-east",)), PassedOver.WRONG_REGION),
        ({}, Wish(doors={"acme": Door(regions=("us-west-2",))}), PassedOver.WRONG_REGION),
        ({"boot": BootMode.CONTAINER}, Wish(), PassedOver.CANNOT_BOOT),
        ({"boot": BootMode.CONTAINER}, Wish(boots=tuple(BootMode)), PassedOver.FOR_PODS),
        ({"no_driver": "a part of a GPU"}, Wish(), PassedOver.NO_DRIVER),
        ({"trust": Trust.ANY}, Wish(), PassedOver.LOW_TRUST),
        ({"until": NOW + timedelta(hours=1)}, Wish(lasting=timedelta(hours=2)), PassedOver.ENDS_TOO_SOON),
        ({"until": NOW - timedelta(hours=1)}, Wish(), PassedOver.ENDS_TOO_SOON),
        ({"stock": Stock.NONE}, Wish(), PassedOver.SOLD_OUT),
        ({"sku": "bad"}, Wish(marks=FAILED), PassedOver.BENCHED),
        ({"host": "h1"}, Wish(marks=FAILED), PassedOver.BENCHED),
        ({"sku": "c"}, Wish(marks=LOST), PassedOver.BENCHED),
        ({"sku": "c"}, Wish(marks=EMPTY), PassedOver.BENCHED),
        ({}, Wish(max_hourly_microusd=DOLLAR - 1), PassedOver.TOO_DEAR),
        ({}, Wish(headroom_microusd=DOLLAR - 1), PassedOver.OVER_LIMIT),
        ({}, Wish(headroom_microusd=-DOLLAR), PassedOver.OVER_LIMIT),
        ({}, Wish(), None),
        ({"gpu": "A100"}, A100, None),
        ({}, Wish(max_hourly_microusd=DOLLAR, headroom_microusd=DOLLAR, gpu_count=1, models=("a100-80gb",)), None),
        ({}, Wish(regions=("us-east", "us"), class_regions=("us-west-1",)), None),
        ({}, Wish(provider="acme", instance_type="a"), None),
        ({"spot": True}, Wish(kinds=Kinds.SPOT), None),
        ({"spot": True}, Wish(kinds=Kinds.EITHER), None),
        ({"host": "h2"}, Wish(marks=FAILED), None),
        ({"provider": "other"}, Wish(marks=LOST), None),
        ({}, Wish(marks=account_failed(Marks(), an_offer(), "acme/keys/B", "no credit", NOW)), None),
        ({"boot": BootMode.CONTAINER}, Wish(boots=tuple(BootMode), as_node=False), None),
        ({"no_driver": "a part of a GPU"}, Wish(as_node=False), None),
        ({"trust": Trust.ANY}, Wish(min_trust=Trust.ANY), None),
        ({"until": NOW + timedelta(hours=2)}, Wish(lasting=timedelta(hours=2)), None),
        ({}, Wish(lasting=timedelta.max), None),
        ({"hourly_microusd": 0, "boot": BootMode.POWER}, Wish(max_hourly_microusd=0), None),
    ],
)
def test_each_rule_turns_away_what_it_is_for(offer, wish, reason):
    ranking = rank(a_book(an_offer(**{"sku": "a"} | offer)), wish, NOW)

    assert dict(ranking.passed) == ({} if reason is None else {reason: 1})
    assert len(ranking) == (reason is None)
    assert [miss.reason for miss in ranking.misses()] == ([] if reason is None else [reason])


def test_what_was_not_seen_for_too_long_is_not_bought():
    book = a_book(an_offer(), seen_at=NOW - timedelta(minutes=31))

    assert dict(rank(book, A100, NOW).passed) == {PassedOver.STALE: 1}
    assert len(rank(book, Wish(stale_after=timedelta(hours=1)), NOW)) == 1


def test_a_price_is_preferred_and_priority_breaks_ties():
    book = PriceBook()
    for source, price in (("a", 3), ("b", 2), ("c", 2)):
        book = book.with_listing(source, AListing((an_offer(source, provider=source, hourly_microusd=price),)), NOW)
    doors = {"a": Door(1), "b": Door(100), "c": Door(50)}

    assert skus(rank(book, Wish(doors=doors), NOW)) == ["c", "b", "a"]
    assert skus(rank(book, Wish(doors=doors, selection=Selection.PRIORITY), NOW)) == ["a", "c", "b"]
    assert skus(rank(book, Wish(), NOW)) == ["b", "c", "a"]


def test_the_nearest_miss_says_by_how_much():
    """The owner sees what to change, and what it would cost."""
    dear = an_offer("dear", provider="lambdalabs", hourly_microusd=1_290_000)
    dearer = an_offer("dearer", hourly_microusd=2_000_000)
    other = an_offer("other", gpu="RTX4090", hourly_microusd=400_000)
    wish = Wish(models=("A100",), max_hourly_microusd=1_200_000)

    ranking = rank(a_book(dear, dearer, other), wish, NOW)

    assert ranking.best is None
    assert ranking.explain() == (
        "none of 3 offers fits: 2 too dear, 1 another GPU",
        "1x A100-80GB-SXM at $1.29/h from lambdalabs in us-west-1: 9 cents above maxHourlyPrice",
        "1x RTX4090 at $0.40/h from acme in us-west-1: another GPU, wanted: A100",
    )


def test_near_misses_are_counted_before_what_was_never_meant():
    """A class with one provider stands beside a market of thousands: what its owner can change must not drown there."""
    meant = (
        an_offer("dear", hourly_microusd=2_000_000),
        an_offer("empty", stock=Stock.NONE),
        an_offer("far", region="eu-north", place="eu-north-1", country="NO"),
        an_offer("poor", trust=Trust.ANY),
        an_offer("bad", host="h1"),
        *(an_offer(f"small-{number}", gpu="RTX4090") for number in range(3)),
    )
    elsewhere = AListing(tuple(an_offer(f"z{number}", provider="zeta") for number in range(9)))
    book = a_book(*meant).with_listing("zeta", elsewhere, NOW)
    wish = Wish(
        models=("A100",),
        regions=("us-west",),
        max_hourly_microusd=DOLLAR + 1,
        marks=FAILED,
        doors={"acme": Door()},
    )

    assert rank(book, wish, NOW).explain()[0] == (
        "none of 17 offers fits: 1 too dear, 1 benched, 1 sold out, 1 trust too low, 1 another region, 12 others"
    )


def test_what_fits_is_told_in_one_line():
    assert rank(a_book(an_offer(), an_offer("b", gpu_count=2)), A100, NOW).explain() == (
        "1 of 2 offers fit; the best is 1x A100-80GB-SXM at $1.00/h from acme in us-west-1",
    )
    assert rank(PriceBook(), A100, NOW).explain() == ("no offers are known",)


def test_who_could_not_be_asked_is_told_and_not_taken_for_empty():
    book = a_book(an_offer()).with_failure("zeta", "it answered 503", NOW - timedelta(minutes=3))
    used = rank(book, Wish(doors={"acme": Door(), "zeta": Door()}), NOW)
    unused = rank(book, Wish(doors={"acme": Door()}), NOW)

    assert used.explain()[-1] == "zeta could not be read 3 min ago (it answered 503); nothing of it is known"
    assert unused.unknown == ()


@pytest.mark.parametrize(
    ("offer", "wish", "words"),
    [
        ({"hourly_microusd": 2_500_000}, Wish(max_hourly_microusd=DOLLAR), "$1.50 above maxHourlyPrice"),
        ({"hourly_microusd": 1_010_000}, Wish(max_hourly_microusd=DOLLAR), "1 cent above maxHourlyPrice"),
        ({"hourly_microusd": 1_004_000}, Wish(max_hourly_microusd=DOLLAR), "0.4 cents above maxHourlyPrice"),
        ({"hourly_microusd": 1_000_017}, Wish(max_hourly_microusd=DOLLAR), "0.0017 cents above maxHourlyPrice"),
        ({"hourly_microusd": 1_426_547}, Wish(max_hourly_microusd=DOLLAR), "42.7 cents above maxHourlyPrice"),
        ({"hourly_microusd": 1_010_400}, Wish(max_hourly_microusd=DOLLAR), "1 cent above maxHourlyPrice"),
        ({"hourly_microusd": 1_999_900}, Wish(max_hourly_microusd=DOLLAR), "$1.00 above maxHourlyPrice"),
        ({}, Wish(headroom_microusd=250_000), "only $0.25/h is left of the class's maxHourlyCost"),
        ({}, Wish(headroom_microusd=-1), "only $0.00/h is left of the class's maxHourlyCost"),
        ({"sku": "bad"}, Wish(marks=FAILED), "benched, failed 4 min ago (sold out)"),
        ({}, Wish(marks=EMPTY), "benched, failed just now (no credit)"),
        ({"boot": BootMode.CONTAINER}, Wish(), "cannot boot Talos: it starts as container"),
        (
            {"boot": BootMode.CONTAINER},
            Wish(boots=tuple(BootMode)),
            f"{CONTAINER_ONLY}; bootPolicy Any keeps such offers for pods, once a bridge can run them there",
        ),
        ({"no_driver": "a part of a GPU"}, Wish(), "a part of a GPU"),
        ({"trust": Trust.ANY}, Wish(), "its trust is Any, and minTrust is Verified"),
        ({}, Wish(regions=("eu-west",)), "it stands in us-west, wanted: eu-west"),
        ({"vcpus": 0}, Wish(min_vcpus=4), "its virtual CPUs are not told, 4 are wanted"),
        ({"until": NOW}, Wish(lasting=timedelta(1)), "its owner takes it back at 2026-11-16 12:00 UTC"),
        ({"stock": Stock.NONE}, Wish(), "sold out"),
    ],
)
def test_every_reason_has_its_words(offer, wish, words):
    (miss,) = rank(a_book(an_offer(**{"sku": "a"} | offer)), wish, NOW).misses()

    assert miss.words.endswith(f": {words}")


def _plainly(row: Row, wish: Wish) -> PassedOver | None:
    """The rules once more, one offer at a time, in plain words."""
    offer, doors = row.offer, wish.doors
    wanted = {model for name in wish.models for model in members(name)}
    door = Door() if doors is None else doors.get(row.source)
    rules = (wish.regions, wish.class_regions, door.regions if door else ())
    stands = all(
        not names or any(region_fits(n, offer.region, offer.place, offer.country) for n in names) for names in rules
    )
    checks = (
        (PassedOver.NOT_IN_CLASS, door is None),
        (PassedOver.DISABLED, door is not None and not door.enabled),
        (
            PassedOver.ANOTHER_OFFER,
            wish.provider not in {"", offer.provider} or wish.instance_type not in {"", offer.sku},
        ),
        (PassedOver.WRONG_GPU, bool(wanted) and offer.gpu not in wanted),
        (PassedOver.WRONG_COUNT, wish.gpu_count not in {None, offer.gpu_count}),
        (PassedOver.LITTLE_GPU_MEMORY, offer.gpu_memory_gib < wish.min_gpu_memory_gib),
        (PassedOver.WRONG_ARCH, wish.arch not in {"", offer.arch}),
        (PassedOver.FEW_VCPUS, offer.vcpus < wish.min_vcpus),
        (PassedOver.LITTLE_MEMORY, offer.memory_gib < wish.min_memory_gib),
        (PassedOver.SPOT_NOT_ALLOWED, offer.spot and wish.kinds is Kinds.ON_DEMAND),
        (PassedOver.NOT_SPOT, not offer.spot and wish.kinds is Kinds.SPOT),
        (PassedOver.WRONG_REGION, not stands),
        (PassedOver.CANNOT_BOOT, offer.boot not in wish.boots),
        (PassedOver.FOR_PODS, wish.as_node and offer.boot is BootMode.CONTAINER),
        (PassedOver.NO_DRIVER, wish.as_node and bool(offer.no_driver)),
        (PassedOver.LOW_TRUST, offer.trust < wish.min_trust),
        (
            PassedOver.ENDS_TOO_SOON,
            offer.until is not None and int(offer.until.timestamp()) < (NOW + wish.lasting).timestamp(),
        ),
        (PassedOver.STALE, NOW - row.seen_at > wish.stale_after),
        (PassedOver.SOLD_OUT, offer.stock is Stock.NONE),
        (PassedOver.BENCHED, wish.marks.against(offer, row.source, NOW) is not None),
        (
            PassedOver.TOO_DEAR,
            wish.max_hourly_microusd is not None and offer.hourly_microusd > wish.max_hourly_microusd,
        ),
        (PassedOver.OVER_LIMIT, wish.headroom_microusd is not None and offer.hourly_microusd > wish.headroom_microusd),
    )
    return next((reason for reason, fails in checks if fails), None)


def _few(values) -> st.SearchStrategy:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


DOORS = st.builds(Door, st.integers(0, 3), _few(("us-west", "US", "nowhere")), st.sampled_from((True, True, False)))


def _marks(rows) -> Marks:
    marks = Marks()
    for offer, never_joined, minutes in rows:
        when = NOW - timedelta(minutes=minutes)
        marks = failed(marks, offer, "x", when, never_joined=never_joined)
        if minutes % 8 == 0:
            marks = account_failed(marks, offer, offer.provider[0], "x", when)  # as the sources are called below
    return marks


MARKS = st.lists(st.tuples(offers_of("acme") | offers_of("zeta"), st.booleans(), st.integers(0, 40)), max_size=4).map(
    _marks
)
WISHES = st.builds(
    Wish,
    models=_few(("A100", "RTX4090", "A100-40GB", "GH200")),
    gpu_count=st.none() | st.integers(1, 2),
    min_gpu_memory_gib=st.sampled_from((0, 0, 40)),
    min_vcpus=st.sampled_from((0, 0, 2)),
    min_memory_gib=st.sampled_from((0, 0, 2)),
    arch=st.sampled_from(("", "amd64")),
    regions=_few(("us-west", "US", "nowhere")),
    class_regions=_few(("us-west", "us-east", "US")),
    kinds=st.sampled_from(Kinds),
    provider=st.sampled_from(("", "", "acme")),
    instance_type=st.sampled_from(("", "", "a")),
    max_hourly_microusd=st.none() | st.integers(0, 6),
    headroom_microusd=st.none() | st.integers(-1, 6),
    doors=st.none() | st.dictionaries(st.sampled_from(("a", "z")), DOORS),
    boots=_few(tuple(BootMode)) | st.just(tuple(BootMode)),
    as_node=st.booleans(),
    min_trust=st.sampled_from(Trust),
    lasting=st.timedeltas(timedelta(0), timedelta(hours=12)).map(
        lambda each: timedelta(seconds=each // timedelta(seconds=1))
    ),
    stale_after=st.sampled_from((timedelta(minutes=30), timedelta(minutes=5))),
    marks=MARKS,
    selection=st.sampled_from(Selection),
)


@PATIENT
@given(st.lists(offers_of("acme"), max_size=15), st.lists(offers_of("zeta"), max_size=15), WISHES)
def test_the_arrays_decide_as_plain_rules_do(ours, theirs, wish):
    """Every offer fits or has exactly one reason, the same that one-by-one judgement gives; and the order is total."""
    early = NOW - timedelta(minutes=10)
    book = PriceBook().with_listing("a", AListing(tuple(ours)), NOW).with_listing("z", AListing(tuple(theirs)), early)
    verdicts = [(row, _plainly(row, wish)) for row in book.rows()]

    ranking = rank(book, wish, NOW)

    priority = {name: door.priority for name, door in (wish.doors or {}).items()}

    def place(row: Row) -> tuple[int, int]:
        keys = (row.offer.hourly_microusd, priority.get(row.source, 0))
        return keys if wish.selection is Selection.PRICE else keys[::-1]

    assert list(ranking) == sorted((row for row, reason in verdicts if reason is None), key=place)
    assert [(miss.row, miss.reason) for miss in ranking.misses()] == [each for each in verdicts if each[1] is not None]
    assert ranking.passed == Counter(reason for _, reason in verdicts if reason is not None)
    assert len(ranking) + sum(ranking.passed.values()) == len(book)
    assert all(ranking.explain())
    assert list(ranking.first(2)) == list(ranking)[:2]


@PATIENT
@given(acme=st.lists(offers_of("acme"), max_size=20), beta=st.lists(offers_of("beta"), max_size=20))
def test_the_summary_by_source_and_kind_is_what_reading_every_row_would_tell(acme, beta):
    """Counted in arrays, because a class is judged on every refresh of every source it uses."""
    book = PriceBook().with_listing("acme", AListing(tuple(acme)), NOW).with_listing("b/k", AListing(tuple(beta)), NOW)
    wish = Wish(kinds=Kinds.EITHER, boots=tuple(BootMode), min_trust=Trust.ANY, doors={"acme": Door(2), "b/k": Door()})
    ranking = rank(book, wish, NOW)
    counted = Counter(row.source for row in ranking)
    firsts = {}
    for row in ranking:
        firsts.setdefault((row.offer.gpu, row.source, row.offer.spot), row)

    assert ranking.by_source == {"acme": counted["acme"], "b/k": counted["b/k"]}
    assert ranking.first_of_each_kind() == tuple(firsts.values())


def test_an_empty_book_has_a_summary_too():
    ranking = rank(PriceBook(), Wish(), NOW)

    assert ranking.by_source == {}
    assert ranking.first_of_each_kind() == ()
