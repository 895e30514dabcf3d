"""Which offers serve a wish, in which order, and why the others do not."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import DOLLAR, NOW, PATIENT, AListing, a_book, an_offer, offers_of
from tgp.core.market.ranking import rank
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.gpus import family_members
from tgp.core.model.offer import CONTAINER_ONLY, BootMode, Stock, Trust
from tgp.core.model.offer_query import Kinds, OfferQuery, RejectReason, Selection, SourcePolicy
from tgp.core.model.price_book import OfferRow, PriceBook
from tgp.core.model.regions import region_fits
from tgp.core.requests.cooldown import account_failed, failed

A100 = OfferQuery(models=("A100",), gpu_count=1)
FAILED = failed(Cooldowns(), an_offer("bad", host="h1"), "sold out", NOW - timedelta(minutes=4))
EMPTY = account_failed(Cooldowns(), an_offer(), "acme#12345678", "no credit", NOW)
LOST = failed(failed(Cooldowns(), an_offer(), "x", NOW, never_joined=True), an_offer("b"), "x", NOW, never_joined=True)


def skus(ranking) -> list[str]:
    return [row.offer.sku for row in ranking]


@pytest.mark.parametrize(
    ("offer", "query", "reason"),
    [
        ({}, OfferQuery(policies={"other": SourcePolicy()}), RejectReason.NOT_IN_CLASS),
        ({}, OfferQuery(policies={}), RejectReason.NOT_IN_CLASS),
        ({}, OfferQuery(policies={"acme": SourcePolicy(enabled=False)}), RejectReason.DISABLED),
        ({}, OfferQuery(provider="other"), RejectReason.OTHER_PROVIDER),
        ({}, OfferQuery(instance_type="b"), RejectReason.ANOTHER_OFFER),
        ({"type_name": "big"}, OfferQuery(instance_type="a"), RejectReason.ANOTHER_OFFER),
        ({}, OfferQuery(models=("H100",)), RejectReason.WRONG_GPU),
        ({"gpu": "A100"}, OfferQuery(models=("A100-80GB",)), RejectReason.WRONG_GPU),
        ({}, OfferQuery(gpu_count=2), RejectReason.WRONG_COUNT),
        ({"gpu_count": 2}, OfferQuery(gpu_count=1), RejectReason.WRONG_COUNT),
        ({}, OfferQuery(min_gpu_memory_gib=81), RejectReason.LITTLE_GPU_MEMORY),
        ({"arch": "arm64"}, OfferQuery(arch="amd64"), RejectReason.WRONG_ARCH),
        ({}, OfferQuery(min_vcpus=17), RejectReason.FEW_VCPUS),
        ({"vcpus": 0}, OfferQuery(min_vcpus=1), RejectReason.FEW_VCPUS),
        ({}, OfferQuery(min_memory_gib=129), RejectReason.LITTLE_MEMORY),
        ({"vcpus": 0, "memory_gib": 0, "sized_by_order": True}, OfferQuery(min_vcpus=64, min_memory_gib=512), None),
        ({"spot": True}, OfferQuery(), RejectReason.SPOT_NOT_ALLOWED),
        ({}, OfferQuery(kinds=Kinds.SPOT), RejectReason.NOT_SPOT),
        ({}, OfferQuery(regions=("us-east", "DE")), RejectReason.WRONG_REGION),
        ({}, OfferQuery(regions=("us-west",), class_regions=("us-east",)), RejectReason.WRONG_REGION),
        ({}, OfferQuery(policies={"acme": SourcePolicy(regions=("us-west-2",))}), RejectReason.WRONG_REGION),
        ({"boot": BootMode.CONTAINER}, OfferQuery(), RejectReason.CANNOT_BOOT),
        ({"boot": BootMode.CONTAINER}, OfferQuery(boots=tuple(BootMode)), RejectReason.FOR_PODS),
        ({"no_driver": "a part of a GPU"}, OfferQuery(), RejectReason.NO_DRIVER),
        ({"trust": Trust.ANY}, OfferQuery(), RejectReason.LOW_TRUST),
        ({"until": NOW + timedelta(hours=1)}, OfferQuery(lasting=timedelta(hours=2)), RejectReason.ENDS_TOO_SOON),
        ({"until": NOW - timedelta(hours=1)}, OfferQuery(), RejectReason.ENDS_TOO_SOON),
        ({"stock": Stock.NONE}, OfferQuery(), RejectReason.SOLD_OUT),
        ({"sku": "bad"}, OfferQuery(cooldowns=FAILED), RejectReason.COOLING_DOWN),
        ({"host": "h1"}, OfferQuery(cooldowns=FAILED), RejectReason.COOLING_DOWN),
        ({"sku": "c"}, OfferQuery(cooldowns=LOST), RejectReason.COOLING_DOWN),
        ({"sku": "c"}, OfferQuery(cooldowns=EMPTY), RejectReason.COOLING_DOWN),
        ({}, OfferQuery(max_hourly_microusd=DOLLAR - 1), RejectReason.PRICE_EXCEEDED),
        ({}, OfferQuery(headroom_microusd=DOLLAR - 1), RejectReason.OVER_LIMIT),
        ({}, OfferQuery(headroom_microusd=-DOLLAR), RejectReason.OVER_LIMIT),
        ({}, OfferQuery(), None),
        ({"gpu": "A100"}, A100, None),
        (
            {},
            OfferQuery(max_hourly_microusd=DOLLAR, headroom_microusd=DOLLAR, gpu_count=1, models=("a100-80gb",)),
            None,
        ),
        ({}, OfferQuery(regions=("us-east", "us"), class_regions=("us-west-1",)), None),
        ({}, OfferQuery(provider="acme", instance_type="a"), None),
        ({"spot": True}, OfferQuery(kinds=Kinds.SPOT), None),
        ({"spot": True}, OfferQuery(kinds=Kinds.EITHER), None),
        ({"host": "h2"}, OfferQuery(cooldowns=FAILED), None),
        ({"provider": "other"}, OfferQuery(cooldowns=LOST), None),
        ({}, OfferQuery(cooldowns=account_failed(Cooldowns(), an_offer(), "acme/keys/B", "no credit", NOW)), None),
        ({"boot": BootMode.CONTAINER}, OfferQuery(boots=tuple(BootMode), as_node=False), None),
        ({"no_driver": "a part of a GPU"}, OfferQuery(as_node=False), None),
        ({"trust": Trust.ANY}, OfferQuery(min_trust=Trust.ANY), None),
        ({"until": NOW + timedelta(hours=2)}, OfferQuery(lasting=timedelta(hours=2)), None),
        ({}, OfferQuery(lasting=timedelta.max), None),
        ({"hourly_microusd": 0, "boot": BootMode.POWER}, OfferQuery(max_hourly_microusd=0), None),
    ],
)
def test_each_rule_turns_away_what_it_is_for(offer, query, reason):
    ranking = rank(a_book(an_offer(**{"sku": "a"} | offer)), query, NOW)

    assert dict(ranking.passed) == ({} if reason is None else {reason: 1})
    assert len(ranking) == (reason is None)
    assert [miss.reason for miss in ranking.misses()] == ([] if reason is None else [reason])


def test_what_was_not_seen_for_too_long_is_not_bought():
    book = a_book(an_offer(), seen_at=NOW - timedelta(minutes=31))

    assert dict(rank(book, A100, NOW).passed) == {RejectReason.STALE: 1}
    assert len(rank(book, OfferQuery(stale_after=timedelta(hours=1)), NOW)) == 1


def test_a_price_is_preferred_and_priority_breaks_ties():
    book = PriceBook()
    for source, price in (("a", 3), ("b", 2), ("c", 2)):
        book = book.with_listing(source, AListing((an_offer(source, provider=source, hourly_microusd=price),)), NOW)
    policies = {"a": SourcePolicy(1), "b": SourcePolicy(100), "c": SourcePolicy(50)}

    assert skus(rank(book, OfferQuery(policies=policies), NOW)) == ["c", "b", "a"]
    assert skus(rank(book, OfferQuery(policies=policies, selection=Selection.PRIORITY), NOW)) == ["a", "c", "b"]
    assert skus(rank(book, OfferQuery(), NOW)) == ["b", "c", "a"]


def test_the_nearest_miss_says_by_how_much():
    """The owner sees what to change, and what it would cost."""
    dear = an_offer("dear", provider="lambdalabs", hourly_microusd=1_290_000)
    dearer = an_offer("dearer", hourly_microusd=2_000_000)
    other = an_offer("other", gpu="RTX4090", hourly_microusd=400_000)
    query = OfferQuery(models=("A100",), max_hourly_microusd=1_200_000)

    ranking = rank(a_book(dear, dearer, other), query, NOW)

    assert ranking.best is None
    assert ranking.explain() == (
        "none of 3 offers fits: 2 too expensive, 1 different GPU model",
        "1x A100-80GB-SXM at $1.29/h from lambdalabs in us-west-1: 9 cents above maxHourlyPrice",
        "1x RTX4090 at $0.40/h from acme in us-west-1: different GPU model, wanted: A100",
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
    query = OfferQuery(
        models=("A100",),
        regions=("us-west",),
        max_hourly_microusd=DOLLAR + 1,
        cooldowns=FAILED,
        policies={"acme": SourcePolicy()},
    )

    assert rank(book, query, NOW).explain()[0] == (
        "none of 17 offers fits: 1 too expensive, 1 cooling down, 1 sold out, 1 trust too low, 1 different region, "
        "12 others"
    )


def test_what_fits_is_told_in_one_line():
    assert rank(a_book(an_offer(), an_offer("b", gpu_count=2)), A100, NOW).explain() == (
        "1 of 2 offers fit; the best is 1x A100-80GB-SXM at $1.00/h from acme in us-west-1",
    )
    assert rank(PriceBook(), A100, NOW).explain() == ("no offers are known",)


def test_who_could_not_be_asked_is_told_and_not_taken_for_empty():
    book = a_book(an_offer()).with_failure("zeta", "it answered 503", NOW - timedelta(minutes=3))
    used = rank(book, OfferQuery(policies={"acme": SourcePolicy(), "zeta": SourcePolicy()}), NOW)
    unused = rank(book, OfferQuery(policies={"acme": SourcePolicy()}), NOW)

    assert used.explain()[-1] == "zeta could not be read 3 min ago (it answered 503); its offers are unknown"
    assert unused.unknown == ()


@pytest.mark.parametrize(
    ("offer", "query", "words"),
    [
        ({"hourly_microusd": 2_500_000}, OfferQuery(max_hourly_microusd=DOLLAR), "$1.50 above maxHourlyPrice"),
        ({"hourly_microusd": 1_010_000}, OfferQuery(max_hourly_microusd=DOLLAR), "1 cent above maxHourlyPrice"),
        ({"hourly_microusd": 1_004_000}, OfferQuery(max_hourly_microusd=DOLLAR), "0.4 cents above maxHourlyPrice"),
        ({"hourly_microusd": 1_000_017}, OfferQuery(max_hourly_microusd=DOLLAR), "0.0017 cents above maxHourlyPrice"),
        ({"hourly_microusd": 1_426_547}, OfferQuery(max_hourly_microusd=DOLLAR), "42.7 cents above maxHourlyPrice"),
        ({"hourly_microusd": 1_010_400}, OfferQuery(max_hourly_microusd=DOLLAR), "1 cent above maxHourlyPrice"),
        ({"hourly_microusd": 1_999_900}, OfferQuery(max_hourly_microusd=DOLLAR), "$1.00 above maxHourlyPrice"),
        ({}, OfferQuery(headroom_microusd=250_000), "only $0.25/h is left of the class's maxHourlyCost"),
        ({}, OfferQuery(headroom_microusd=-1), "only $0.00/h is left of the class's maxHourlyCost"),
        ({"sku": "bad"}, OfferQuery(cooldowns=FAILED), "cooling down, failed 4 min ago (sold out)"),
        ({}, OfferQuery(cooldowns=EMPTY), "cooling down, failed just now (no credit)"),
        ({"boot": BootMode.CONTAINER}, OfferQuery(), "cannot boot Talos: the machine starts as container"),
        (
            {"boot": BootMode.CONTAINER},
            OfferQuery(boots=tuple(BootMode)),
            f"{CONTAINER_ONLY}; bootPolicy Any keeps such offers for pods, once a bridge can run them there",
        ),
        ({"no_driver": "a part of a GPU"}, OfferQuery(), "a part of a GPU"),
        ({"trust": Trust.ANY}, OfferQuery(), "trust is Any, minTrust is Verified"),
        ({}, OfferQuery(regions=("eu-west",)), "region is us-west, wanted: eu-west"),
        ({"vcpus": 0}, OfferQuery(min_vcpus=4), "virtual CPUs: unknown, at least 4 wanted"),
        ({"until": NOW}, OfferQuery(lasting=timedelta(1)), "available only until 2026-11-16 12:00 UTC"),
        ({"stock": Stock.NONE}, OfferQuery(), "sold out"),
    ],
)
def test_every_reason_has_its_words(offer, query, words):
    (miss,) = rank(a_book(an_offer(**{"sku": "a"} | offer)), query, NOW).misses()

    assert miss.words.endswith(f": {words}")


def _plainly(row: OfferRow, query: OfferQuery) -> RejectReason | None:
    """The rules once more, one offer at a time, in plain words."""
    offer, policies = row.offer, query.policies
    wanted = {model for name in query.models for model in family_members(name)}
    policy = SourcePolicy() if policies is None else policies.get(row.source)
    rules = (query.regions, query.class_regions, policy.regions if policy else ())
    stands = all(
        not names or any(region_fits(n, offer.region, offer.place, offer.country) for n in names) for names in rules
    )
    checks = (
        (RejectReason.NOT_IN_CLASS, policy is None),
        (RejectReason.DISABLED, policy is not None and not policy.enabled),
        (RejectReason.OTHER_PROVIDER, query.provider not in {"", offer.provider}),
        (RejectReason.ANOTHER_OFFER, query.instance_type not in {"", offer.sku}),
        (RejectReason.WRONG_GPU, bool(wanted) and offer.gpu not in wanted),
        (RejectReason.WRONG_COUNT, query.gpu_count not in {None, offer.gpu_count}),
        (RejectReason.LITTLE_GPU_MEMORY, offer.gpu_memory_gib < query.min_gpu_memory_gib),
        (RejectReason.WRONG_ARCH, query.arch not in {"", offer.arch}),
        (RejectReason.FEW_VCPUS, offer.vcpus < query.min_vcpus),
        (RejectReason.LITTLE_MEMORY, offer.memory_gib < query.min_memory_gib),
        (RejectReason.SPOT_NOT_ALLOWED, offer.spot and query.kinds is Kinds.ON_DEMAND),
        (RejectReason.NOT_SPOT, not offer.spot and query.kinds is Kinds.SPOT),
        (RejectReason.WRONG_REGION, not stands),
        (RejectReason.CANNOT_BOOT, offer.boot not in query.boots),
        (RejectReason.FOR_PODS, query.as_node and offer.boot is BootMode.CONTAINER),
        (RejectReason.NO_DRIVER, query.as_node and bool(offer.no_driver)),
        (RejectReason.LOW_TRUST, offer.trust < query.min_trust),
        (
            RejectReason.ENDS_TOO_SOON,
            offer.until is not None and int(offer.until.timestamp()) < (NOW + query.lasting).timestamp(),
        ),
        (RejectReason.STALE, NOW - row.seen_at > query.stale_after),
        (RejectReason.SOLD_OUT, offer.stock is Stock.NONE),
        (RejectReason.COOLING_DOWN, query.cooldowns.against(offer, row.source, NOW) is not None),
        (
            RejectReason.PRICE_EXCEEDED,
            query.max_hourly_microusd is not None and offer.hourly_microusd > query.max_hourly_microusd,
        ),
        (
            RejectReason.OVER_LIMIT,
            query.headroom_microusd is not None and offer.hourly_microusd > query.headroom_microusd,
        ),
    )
    return next((reason for reason, fails in checks if fails), None)


def _few(values) -> st.SearchStrategy:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


POLICIES = st.builds(
    SourcePolicy, st.integers(0, 3), _few(("us-west", "US", "nowhere")), st.sampled_from((True, True, False))
)


def _cooldowns(rows) -> Cooldowns:
    cooldowns = Cooldowns()
    for offer, never_joined, minutes in rows:
        when = NOW - timedelta(minutes=minutes)
        cooldowns = failed(cooldowns, offer, "x", when, never_joined=never_joined)
        if minutes % 8 == 0:
            cooldowns = account_failed(
                cooldowns, offer, offer.provider[0], "x", when
            )  # as the sources are called below
    return cooldowns


MARKS = st.lists(st.tuples(offers_of("acme") | offers_of("zeta"), st.booleans(), st.integers(0, 40)), max_size=4).map(
    _cooldowns
)
WISHES = st.builds(
    OfferQuery,
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
    policies=st.none() | st.dictionaries(st.sampled_from(("a", "z")), POLICIES),
    boots=_few(tuple(BootMode)) | st.just(tuple(BootMode)),
    as_node=st.booleans(),
    min_trust=st.sampled_from(Trust),
    lasting=st.timedeltas(timedelta(0), timedelta(hours=12)).map(
        lambda each: timedelta(seconds=each // timedelta(seconds=1))
    ),
    stale_after=st.sampled_from((timedelta(minutes=30), timedelta(minutes=5))),
    cooldowns=MARKS,
    selection=st.sampled_from(Selection),
)


@PATIENT
@given(st.lists(offers_of("acme"), max_size=15), st.lists(offers_of("zeta"), max_size=15), WISHES)
def test_the_arrays_decide_as_plain_rules_do(ours, theirs, query):
    """Every offer fits or has exactly one reason, the same that one-by-one judgement gives; and the order is total."""
    early = NOW - timedelta(minutes=10)
    book = PriceBook().with_listing("a", AListing(tuple(ours)), NOW).with_listing("z", AListing(tuple(theirs)), early)
    verdicts = [(row, _plainly(row, query)) for row in book.rows()]

    ranking = rank(book, query, NOW)

    priority = {name: policy.priority for name, policy in (query.policies or {}).items()}

    def place(row: OfferRow) -> tuple[int, int]:
        keys = (row.offer.hourly_microusd, priority.get(row.source, 0))
        return keys if query.selection is Selection.PRICE else keys[::-1]

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
    query = OfferQuery(
        kinds=Kinds.EITHER,
        boots=tuple(BootMode),
        min_trust=Trust.ANY,
        policies={"acme": SourcePolicy(2), "b/k": SourcePolicy()},
    )
    ranking = rank(book, query, NOW)
    counted = Counter(row.source for row in ranking)
    firsts = {}
    for row in ranking:
        firsts.setdefault((row.offer.gpu, row.source, row.offer.spot), row)

    assert ranking.by_source == {"acme": counted["acme"], "b/k": counted["b/k"]}
    assert ranking.first_of_each_kind() == tuple(firsts.values())


def test_an_empty_book_has_a_summary_too():
    ranking = rank(PriceBook(), OfferQuery(), NOW)

    assert ranking.by_source == {}
    assert ranking.first_of_each_kind() == ()


@pytest.mark.parametrize(
    ("region", "hint"),
    [("us-wset", "; region us-wset is unknown and has no offers; did you mean us-west"), ("eu-north", "")],
)
def test_a_region_that_means_nothing_is_named_with_the_nearest(region, hint):
    said = rank(a_book(an_offer()), OfferQuery(regions=(region,)), NOW).explain()[1]

    assert (hint in said) if hint else ("unknown" not in said)
