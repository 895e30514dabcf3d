"""Figures that stand in the docs and in the code are equal.

Each row binds a sentence of a page to a constant: `{}` in the sentence is the figure. A figure that no row binds fails
the last test; where no constant can hold it, it belongs into `FREE`, with the reason.
"""

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from bench.safety.run import HOURS as BENCH_HOURS
from tests.sim import test_safety
from tests.sim.mutants import test_mutants as mutants
from tgp.adapters.clouds.gcp import tokens as gcp_tokens
from tgp.adapters.clouds.registry import facts_of
from tgp.adapters.clouds.webhook.client import USUAL_BOOT
from tgp.adapters.kube import controller, reflector, secret_reader
from tgp.adapters.telemetry import requests as request_metrics
from tgp.api.nodepool import Disruption as PoolDisruption
from tgp.api.nodepool import DisruptionRule
from tgp.api.owned_machine import PowerMachine
from tgp.api.request import GPURequestSpec
from tgp.api.values import duration
from tgp.app import operator
from tgp.app.commands import demo
from tgp.app.commands import operator as operator_command
from tgp.app.settings import Settings
from tgp.controllers.access import certificate_keeper
from tgp.controllers.budgets import legacy_budgets
from tgp.controllers.disruption.observe import LISTED_FOR, SEARCHED_EVERY
from tgp.controllers.disruption.reconciler import BELIEVED_AFTER
from tgp.controllers.instances import accounts, consistency, leftover_nodes, orphan_collector, poller
from tgp.controllers.market import reconciler as market
from tgp.controllers.pools import memory
from tgp.controllers.pools.plan_runner import PLANNED_WITHIN
from tgp.controllers.requests import fresh_read_check, launch, observe
from tgp.core.access import certificate, kept_answers, token
from tgp.core.budgets import account, packing, recreation, resume, spans, victims
from tgp.core.budgets.status import GATHERED, IDLE_AFTER
from tgp.core.classes import default_class, market_status
from tgp.core.disruption import candidates, causes, exchange, health, market_moves, moves, restart_cost
from tgp.core.inventory import orphan_evidence, orphans
from tgp.core.inventory.in_use import LET_GO_AFTER
from tgp.core.inventory.limits import COUNTED_ON_FOR
from tgp.core.model import cooldowns, offer_query
from tgp.core.pools import capacity, machine_failures, machine_types, nominations, orders, runaway, upkeep
from tgp.core.pools.planner import sources, world
from tgp.core.pools.planner.world import ASSUMED_SPOT_LOSS
from tgp.core.pools.status import COUNTED_EVERY, LONGEST_COUNTED
from tgp.core.reports import doctor
from tgp.core.requests import (
    cooldown,
    drain,
    lifecycle,
    moments,
    outage,
    provider_reports,
    purchase,
    termination_reasons,
)
from tgp.interfaces.cli import down, node, offers_view, rent, status
from tgp.services import setup_plan
from tgp.sim import scaled
from tgp.sim.checkers import holds, joining, leader_terms, money
from tgp.sim.checkers import moves as move_checkers
from tools import day
from tools.live import termination, walk

ROOT = Path(__file__).resolve().parents[2]
README, SECURITY, FIELDS = "README.md", "SECURITY.md", "docs/fields.md"
LIVE, MARKET, METRICS, MONEY, OPERATOR, POOLS = (
    f"docs/{name}.md" for name in ("live", "market", "metrics", "money", "operator", "pools")
)
RENT, REQUESTS, SAFETY, WEBHOOK, WORLD = (
    f"docs/{name}.md" for name in ("rent", "requests", "safety", "webhook", "world")
)
PLANNER, DISRUPTION, ACCOUNTING = "docs/planner.md", "docs/disruption.md", "docs/accounting.md"
BUDGETS, FIRST_STEPS = "docs/budgets.md", "docs/first-steps.md"
ACCESS, THREATS = "docs/access.md", "docs/security.md"
AUTOPROVISION = "docs/migrating-from-k8s-gpu-autoprovision.md"
# Made from the code, bound by tests of their own, or without figures of the code.
OTHER_PAGES = frozenset({FIELDS, "docs/providers.md", "docs/new-provider.md", "docs/talos-judge.md", "docs/values.md"})
# From there on a page reports what was measured.
ENDS_BEFORE = {
    SAFETY: "## Hours:",
    PLANNER: "## Judged cases",
    DISRUPTION: "## Measured",
    ACCESS: "## Measured",
    BUDGETS: "## Measured",
}

WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
WORDS |= {"a": 1, "an": 1, "another": 1, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "sixty": 60}
UNITS = {"s": 1, "m": 60, "h": 3600, "second": 1, "minute": 60, "hour": 3600, "day": 86_400}
SHARES = {"a fifth": 0.2, "a quarter": 0.25, "a twelfth": 1 / 12}
NUMBER = rf"(?:\d+(?:\.\d+)?|{'|'.join(sorted(WORDS, key=len, reverse=True))}|half an?)"
FIGURE = (
    rf"\b{NUMBER} (?:second|minute|hour|day)s?\b(?! (?:one|time|process|signal|machine|`))|\b\d+ ?[smh]\b"
    rf"|\b\d+(?:\.\d+)? ?%|\$\d+\.\d\d+|\b(?:{'|'.join(SHARES)})\b|\b\w+ times (?=real)"
)


class Figure(NamedTuple):
    page: str
    sentence: str  # with {} for the figure
    value: timedelta | float


def of_seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def settles(provider: str) -> timedelta:
    return observe.settle_window(Settings().lease_duration, facts_of(provider))


def default_of(kind: type[msgspec.Struct], name: str) -> timedelta:
    return duration(next(field.default for field in msgspec.structs.fields(kind) if field.name == name), "")


def share_of(kind: type[msgspec.Struct], name: str) -> float:
    default = next(field.default for field in msgspec.structs.fields(kind) if field.name == name)
    return float(str(default).removesuffix("%")) / 100


SETTINGS = Settings()
IDLE = default_of(GPURequestSpec, "idle_timeout")
DIRECT_AFTER = next(str(option.default) for option in down.down.params if option.name == "direct_after")

FIGURES = (
    Figure(ACCESS, "a certificate of {} for the names", certificate.LEAF_LIFE),
    Figure(ACCESS, "reads the Secret every {}", of_seconds(certificate_keeper.LOOK_EVERY)),
    Figure(ACCESS, "Both answers are kept for {}", of_seconds(kept_answers.KEPT)),
    Figure(ACCESS, "does not arrive within {}", of_seconds(operator_command.REQUEST_WITHIN)),
    Figure(ACCESS, "for the audience `tgp-operator` and {}, and", token.TOKEN_LIFE),
    Figure(THREATS, "a token of {} for the audience", token.TOKEN_LIFE),
    Figure(BUDGETS, "no pod has matched for {}", IDLE_AFTER),
    Figure(README, "The world starts {} ago", scaled.BEGAN_AGO),
    Figure(README, "catches up with the present at {}", scaled.FACTOR),
    Figure(README, "it runs in real time for {}", demo.SLOW_FOR),
    Figure(README, "after {} without a pod", IDLE),
    Figure(WORLD, "The world starts {} ago", scaled.BEGAN_AGO),
    Figure(WORLD, "runs at {}", scaled.FACTOR),
    Figure(WORLD, "until it reaches the present, {} later", scaled.BEGAN_AGO / scaled.FACTOR),
    Figure(WORLD, "the world runs in real time for {}", demo.SLOW_FOR),
    Figure(WORLD, "are up to {} larger", scaled.BEGAN_AGO),
    Figure(FIELDS, "Terminate the machine after this long. Default {};", purchase.USUAL_LIFE),
    Figure(FIELDS, "An Event warns at {} of it", moments.WARNED_AT),
    Figure(FIELDS, "has requested a GPU for this long. Default {};", IDLE),
    Figure("docs/security.md", "no lost machine counts for more than {} |", COUNTED_ON_FOR),
    Figure(SECURITY, "deleted {} later", of_seconds(leftover_nodes.CLEARED_FOR)),
    Figure(SECURITY, "some {} the first time", of_seconds(leftover_nodes.GONE_AFTER) + leftover_nodes.LOOK_AGAIN),
    Figure(SECURITY, "at most {} afterwards", of_seconds(leftover_nodes.CLEARED_FOR)),
    Figure(SECURITY, "again every {}", of_seconds(secret_reader.LOOK_EVERY)),
    Figure(SECURITY, "{} after the last use", of_seconds(secret_reader.FORGET_AFTER)),
    Figure(SECURITY, "a token of {}", gcp_tokens.LIFETIME),
    Figure(SECURITY, "is not tried again for {}", market.REFUSED_AGAIN_AFTER),
    Figure(LIVE, "takes longer than {}", walk.WALK_WITHIN),
    Figure(LIVE, "If the proof is not possible for {}", termination.PATIENCE),
    Figure(MARKET, "when the class is gone (up to {} later", LET_GO_AFTER),
    Figure(MARKET, "yellow after {}", of_seconds(offers_view.AGE_COLOURED_AFTER)),
    Figure(MARKET, "on its own schedule: every {}", facts_of("vultr").refresh_every),
    Figure(MARKET, "(Google Cloud: every {})", facts_of("gcp").refresh_every),
    Figure(MARKET, "plus or minus {}", market.JITTER),
    Figure(MARKET, "The key is checked again after {}", market.REFUSED_AGAIN_AFTER),
    Figure(MARKET, "could not be read for {}", market_status.OUTAGE_REPORTED_AFTER),
    Figure(MARKET, "The last offers are served for {}", offer_query.OFFER_USABLE_FOR),
    Figure(MARKET, "The provider is polled once {}", market.QUOTA_PAUSE),
    Figure(MARKET, "prices only when one moved by more than {}", market_status.NOISE),
    Figure(MARKET, "the number of offers by more than {}", market_status.COUNT_NOISE),
    Figure(MARKET, "and at most every {}", market_status.PRICES_AT_MOST_EVERY),
    Figure(MARKET, "A provider that fails for less than {}", market_status.OUTAGE_REPORTED_AFTER),
    Figure(METRICS, "cancelled after their timeout ({})", controller.RECONCILE_TIMEOUT),
    Figure(METRICS, "could not be listed for {}", market.TROUBLE_AFTER),
    Figure(METRICS, "could not buy what was planned within {}", upkeep.REPLANNED_AFTER),
    Figure(POOLS, "it is written at most every {} while nothing else changes", COUNTED_EVERY),
    Figure(POOLS, "time without an operator counts for {} at most", LONGEST_COUNTED),
    Figure(METRICS, "plans with this pool that did not end within {}", PLANNED_WITHIN),
    Figure(PLANNER, "a plan that has not ended after {}", PLANNED_WITHIN),
    Figure(PLANNER, "That chance is {} an hour, and moves", ASSUMED_SPOT_LOSS),
    Figure(POOLS, "no further pod has come for {}", SETTINGS.batch_idle),
    Figure(POOLS, "at the latest {} after the first", SETTINGS.batch_max),
    Figure(POOLS, "pods that leave within {}", capacity.LEAVING_WITHIN),
    Figure(POOLS, "the planned price and {} more", 1 / world.PRICE_MARGIN),
    Figure(POOLS, "more expensive or over a limit for {}", upkeep.REPLANNED_AFTER),
    Figure(POOLS, "waits for it, up to {} after", upkeep.PREPARED_WITHIN),
    Figure(POOLS, "has removed none for {} (", of_seconds(nominations.QUIET_S)),
    Figure(POOLS, "(at most {}, if they are removed again and again)", of_seconds(nominations.LONGEST_QUIET_S)),
    Figure(POOLS, "nothing is bought for {},", runaway.PAUSES[0]),
    Figure(POOLS, "after the second such machine for {}", runaway.PAUSES[1]),
    Figure(POOLS, "after the third and every further one for {}", runaway.PAUSES[2]),
    Figure(POOLS, "ready and unused for {} while they wait", runaway.SCHEDULED_WITHIN),
    Figure(POOLS, "of the operator's namespace for {}, 256 at most", runaway.KEPT_FOR),
    Figure(POOLS, "the scheduler refuses a pod for {}", runaway.DISAGREED_AFTER),
    Figure(POOLS, "nothing more is bought for equal pods for {}", runaway.DISAGREED_FOR),
    Figure(POOLS, "became ready within {} and served no pod", runaway.PAUSES[-1]),
    Figure(POOLS, "its spec is edited, or the {} are over", runaway.PAUSES[-1]),
    Figure(POOLS, "the pool buys nothing for {}, then for longer", memory.FIRST_REFUSED),
    Figure(POOLS, "then for longer each time, {} at most", memory.LONGEST_REFUSED),
    Figure(WORLD, "for {} of idling", day.IDLE),
    Figure(POOLS, "a newer machine differs by more than {}", machine_types.NOISE),
    Figure(POOLS, "by more than {} in the time to boot", machine_types.BOOT_NOISE),
    Figure(DISRUPTION, "without GPUs are evicted, for {} at most", moves.EVICTED_FIRST_FOR),
    Figure(DISRUPTION, "from a machine you own, until {} before", drain.LAST_CALL_AT_MOST),
    Figure(DISRUPTION, "purchases are paused, or after {}: replacements", moves.MOVE_AT_MOST),
    Figure(DISRUPTION, "nothing is disrupted for {}; after that", BELIEVED_AFTER),
    Figure(DISRUPTION, "have not been allocatable for {}, or", health.GPUS_MISSING_FOR),
    Figure(DISRUPTION, "a machine is replaced for it ({} if none", health.USUAL_AFTER),
    Figure(DISRUPTION, "from that provider for {};", cooldown.FIRST_COOLDOWN),
    Figure(DISRUPTION, "that time doubles, to {} at most", cooldowns.LONGEST_COOLDOWN),
    Figure(DISRUPTION, "lost in a pool within {}, the", machine_failures.COUNTED_FOR),
    Figure(DISRUPTION, "`terminationGracePeriod` and {} more", moments.PROVIDER_END_SPARE),
    Figure(DISRUPTION, "at most once {}, and only when prices", SEARCHED_EVERY),
    Figure(DISRUPTION, "has moved by more than {}, or the last", market_moves.MATTERS),
    Figure(DISRUPTION, "the last search is {} old", LISTED_FOR),
    Figure(DISRUPTION, "costs once, spread over {}:", exchange.HORIZON),
    Figure(DISRUPTION, "Every pod takes {} to start again", restart_cost.START_UP),
    Figure(DISRUPTION, "as it was measured, otherwise {};", exchange.USUAL_BOOT),
    Figure(DISRUPTION, "and for {} those that became Ready", candidates.SETTLED_FOR),
    Figure(DISRUPTION, "after every search of the last {} has found", candidates.HELD_FOR),
    Figure(DISRUPTION, "The next attempt is after {}, and", moves.RETRIES[0]),
    Figure(DISRUPTION, "the pause doubles, to {} at most", moves.RETRIES[-1]),
    Figure(DISRUPTION, "is left out until {} after", moves.TRIED_WITHIN),
    Figure(POOLS, "Failed requests stay for {}", upkeep.FAILED_KEPT),
    Figure(POOLS, "stays for at least {} after it became ready", causes.SCHEDULED_WITHIN),
    Figure(POOLS, "by themselves after {} without a pod", duration(orders.BACKSTOP, "")),
    Figure(METRICS, "still listed {} after their termination", request_metrics.FAILING_AFTER),
    Figure(MONEY, "vanish from an account within {}", of_seconds(consistency.AT_ONCE)),
    Figure(MONEY, "until the lists were consistent for {}", of_seconds(consistency.CONSISTENT_FOR)),
    Figure(MONEY, "until they were empty for {}", accounts.REMEMBERED_FOR),
    Figure(MONEY, "drained more than {} ago", doctor.ENDS_WITHIN),
    Figure(MONEY, "a pod ended more than {} ago", doctor.HELD_FOR),
    Figure(ACCOUNTING, "lists pods that are held for more than {} after", doctor.HELD_FOR),
    Figure(MONEY, "more than two machines, and more than {}", 1 / orphans.SHARE),
    Figure(MONEY, "confirmed absent twice, {} apart", of_seconds(orphan_evidence.PROVEN_AFTER)),
    Figure(MONEY, "a tenth of the lifetime, at least {}", purchase.RUN_MARGIN),
    Figure(REQUESTS, "extended past it ends {} and a drain earlier", moments.PROVIDER_END_SPARE),
    Figure(MONEY, "the sum is above {}", facts_of("gcp").longest_run),
    Figure(MONEY, "`--direct-after` ({})", duration(DIRECT_AFTER, "")),
    Figure(OPERATOR, "with the default Lease ({})", SETTINGS.lease_duration),
    Figure(OPERATOR, "could not renew for {}", SETTINGS.renew_deadline),
    Figure(OPERATOR, "has been stale for {}", of_seconds(operator.CACHE_SILENT_AFTER)),
    Figure(OPERATOR, "a running operator notices within {}", of_seconds(reflector.ABSENT.cap)),
    Figure(OPERATOR, "retried every {}", legacy_budgets.REFUSED_PAUSE),
    Figure(RENT, "the shown price plus {}", rent.CONFIRMED_PERCENT / 100 - 1),
    Figure(RENT, "refreshes every {}", of_seconds(status.LOOK_EVERY)),
    Figure(REQUESTS, "`maxLifetime` ({};", purchase.USUAL_LIFE),
    Figure(REQUESTS, "`idleTimeout` ({})", IDLE),
    Figure(REQUESTS, "`terminationGracePeriod` ({})", default_of(GPURequestSpec, "termination_grace_period")),
    Figure(REQUESTS, "4 machines and {} an hour", float(default_class.IMPLICIT_LIMITS.max_hourly_cost or 0)),
    Figure(REQUESTS, "| {} of its life have passed", moments.WARNED_AT),
    Figure(REQUESTS, "the time in the message ({})", COUNTED_ON_FOR),
    Figure(REQUESTS, "two or more machines within {}. Nothing", of_seconds(consistency.AT_ONCE)),
    Figure(REQUESTS, "wait for {} of consistent lists", of_seconds(consistency.CONSISTENT_FOR)),
    Figure(REQUESTS, "the pause is {} of the time", 1 / lifecycle.REFUSED_SHARE),
    Figure(REQUESTS, "since the first such failure, up to {}", lifecycle.LONGEST_REFUSED),
    Figure(REQUESTS, "nothing: about {}", settles("vultr")),
    Figure(REQUESTS, "missing or not ready for {}", termination_reasons.NODE_LOST_AFTER),
    Figure(REQUESTS, "its mesh has not known it for {}", termination_reasons.MESH_LOST_AFTER),
    Figure(REQUESTS, "two lists {} apart", provider_reports.CONFIRMED_AFTER),
    Figure(REQUESTS, "Up to {} above counts as the same price", provider_reports.PRICE_ROUNDING / 1_000_000),
    Figure(REQUESTS, "Ten times the price and more: in lists for {} |", provider_reports.DOUBTED_FOR),
    Figure(REQUESTS, "is likely another unit: lists for {} |", provider_reports.DOUBTED_FOR),
    Figure(REQUESTS, "more than {} above the offer", purchase.PRICE_TOLERANCE - 1),
    Figure(REQUESTS, "({} above the listed price", purchase.PRICE_TOLERANCE - 1),
    Figure(REQUESTS, "unreachable for {} counts as drained", drain.UNREACHABLE_FOR),
    Figure(REQUESTS, "`keepFinished` ({};", SETTINGS.keep_finished),
    Figure(REQUESTS, "Against a Ready Node: after {} of such reports", provider_reports.BELIEVED_AFTER),
    Figure(REQUESTS, "two or more machines within {} |", of_seconds(consistency.AT_ONCE)),
    Figure(REQUESTS, "prices: after {} of such reports", provider_reports.BELIEVED_AFTER),
    Figure(REQUESTS, "never joined: after {} |", provider_reports.DOUBTED_FOR),
    Figure(REQUESTS, "every limit of its class for {} (", COUNTED_ON_FOR),
    Figure(REQUESTS, "until the Node is not Ready, for {} at most", provider_reports.BELIEVED_AFTER),
    Figure(REQUESTS, "(more than two, and more than {})", 1 / outage.SHARE),
    Figure(REQUESTS, "no machine is terminated for it within {}", outage.UNREACHABLE_AT_MOST),
    Figure(SAFETY, "where a provider itself created two, one is gone within {}", of_seconds(money.SETTLE)),
    Figure(SAFETY, "owns by token is terminated within {}", of_seconds(money.ORPHANED_FOR)),
    Figure(SAFETY, "Leaders that are gone within {}", of_seconds(leader_terms.BRIEF)),
    Figure(SAFETY, "seeing a machine twice {} apart", of_seconds(orphan_collector.GRACE)),
    Figure(SAFETY, "except within the {} for which", of_seconds(launch.LOOK_GOOD_FOR)),
    Figure(SAFETY, "of the hold are shared for {}, and", of_seconds(fresh_read_check.SHARED_FOR)),
    Figure(SAFETY, "a token is gone {} after its Node joined", of_seconds(joining.AFTER_JOINING)),
    Figure(SAFETY, "{} after its attempt is over", of_seconds(joining.AFTER_THE_END)),
    Figure(SAFETY, "no finalizer of a budget stays for more than {}", of_seconds(holds.OUTLIVES)),
    Figure(SAFETY, "the taint of a move that is over is gone within {}", of_seconds(move_checkers.DEAD_FOR)),
    Figure(SAFETY, "stays in the mesh for more than {}", of_seconds(joining.OUT_OF_THE_MESH)),
    Figure(BUDGETS, "of the window (at least {})", of_seconds(resume.AT_LEAST)),
    Figure(ACCOUNTING, "is believed if it is at most {} older", of_seconds(spans.STATUS_DELAY)),
    Figure(ACCOUNTING, "of an end is believed within the same {}", of_seconds(spans.STATUS_DELAY)),
    Figure(ACCOUNTING, "One case remains: a pod waits {} for its image", of_seconds(spans.STATUS_DELAY)),
    Figure(BUDGETS, "or lies more than {} ahead", of_seconds(packing.AHEAD)),
    Figure(ACCOUNTING, "those that ended in the last {}", of_seconds(account.ENDED_KEPT)),
    Figure(ACCOUNTING, "finished more than {} before", of_seconds(account.COUNTED_BEFORE)),
    Figure(ACCOUNTING, "ended more than {} before the last write", of_seconds(account.COUNTED_BEFORE)),
    Figure(BUDGETS, "from when it was seen, to within {}", of_seconds(spans.STATUS_DELAY)),
    Figure(BUDGETS, "shortens ends | at most {} per pod", of_seconds(spans.STATUS_DELAY)),
    Figure(ACCOUNTING, "if that is later than {} before", of_seconds(account.COUNTED_BEFORE)),
    Figure(ACCOUNTING, "| history | {} by the hour", of_seconds(account.HOURS_KEPT * account.HOUR)),
    Figure(BUDGETS, "and at least within {}, goes on", of_seconds(account.HOURS_KEPT * account.HOUR)),
    Figure(WEBHOOK, "after twice its `bootTimeout` and {}", node.SPARE),
    Figure(BUDGETS, "1/24 of the window (at least {}), the next in order", of_seconds(victims.AT_LEAST)),
    Figure(BUDGETS, "it may run for more than {}, by a long grace", of_seconds(victims.LONG_GRACE)),
    Figure(BUDGETS, "1/48 of the window (at least {})", of_seconds(resume.AT_LEAST)),
    Figure(BUDGETS, "its new pods are evicted after {}, then 2, 4 and so on", recreation.FIRST_PAUSE),
    Figure(BUDGETS, "then 2, 4 and so on, up to {}", recreation.LONGEST_PAUSE),
    Figure(WEBHOOK, "| `bootTimeout` | `{}`", USUAL_BOOT),
    Figure(WEBHOOK, "`minOnTime` | `{}`", default_of(PowerMachine, "min_on_time")),
    Figure(AUTOPROVISION, "on for at least {}", default_of(PowerMachine, "min_on_time")),
    Figure(AUTOPROVISION, "off for at least {}", default_of(PowerMachine, "min_off_time")),
    Figure(FIRST_STEPS, "machines go after {} without pods", duration(setup_plan.IDLE, "")),
    Figure(FIRST_STEPS, "are replaced after {}", duration(setup_plan.LONGEST_LIFE, "")),
    Figure(WEBHOOK, "`minOffTime` | `{}`", default_of(PowerMachine, "min_off_time")),
    Figure(WEBHOOK, "cools down for {}, doubling", cooldown.FIRST_COOLDOWN),
    Figure(WEBHOOK, "doubling to {}, and its pods", cooldowns.LONGEST_COOLDOWN),
    Figure(WEBHOOK, "the Node has not been Ready for {}", lifecycle.OFF_SHOWN_AFTER),
    Figure(DISRUPTION, "that comes and goes is reported once in {}.", memory.SAID_AGAIN_AFTER),
    Figure(DISRUPTION, "the second {} after the first", of_seconds(poller.ANNOUNCED_AGAIN)),
    Figure(DISRUPTION, "a notice of less than {}", 2 * moments.REPLACED_WITHIN),
    Figure(DISRUPTION, "no machine boots in {}:", moments.REPLACED_WITHIN),
    Figure(PLANNER, "loss would cause: {}", timedelta(hours=sources.RESTART_HOURS)),
    Figure(PLANNER, "memory counts {} and CPU", sources.KERNEL_SHARE),
    Figure(PLANNER, "and CPU {} less", timedelta(minutes=sources.SYSTEM_CPU_MILLI)),  # 200m, read as the others are
    Figure(DISRUPTION, "While more than {}", health.MOST_UNHEALTHY_PERCENT / 100),
    Figure(DISRUPTION, "Without any, one of {} does", share_of(DisruptionRule, "nodes")),
    Figure(DISRUPTION, "`minSavings` ({} unless", share_of(PoolDisruption, "min_savings")),
    Figure(SAFETY, "applies and runs {} of them", 1 / mutants.SHARE),
    Figure(ACCOUNTING, "open or close within {} are written", GATHERED),
)

FREE = (
    (ACCOUNTING, "by at most 0.13 % on a day", "measured"),
    (ACCOUNTING, "by at most 1.2 %, for some minutes, where all of them start within five minutes", "measured"),
    (ACCOUNTING, "0.2 % for those five minutes takes buckets of 40 seconds", "measured"),
    (ACCOUNTING, "around ten o'clock", "of the bench"),
    (ACCOUNTING, "an even day of 5,000 pods", "of the bench"),
    (DISRUPTION, "One hour, because that moves the fewest pods: on four days of wandering prices", "of the bench"),
    (DISRUPTION, "where half an hour moves 152", "what was measured"),
    (DISRUPTION, "half an hour costs 1.6 % less", "what was measured"),
    (PLANNER, "costs $1.80 an hour, one with one GPU $1.00", "an example"),
    (PLANNER, "two machines for $2.00", "an example"),
    (DISRUPTION, "for a quarter of an hour goes", "the consolidateAfter of the manifest above it"),
    (DISRUPTION, "At most a fifth of the nodes", "the budget of the manifest above it"),
    (DISRUPTION, "where an hour comes twice", "daylight saving"),
    (REQUESTS, 'a duration such as `"2h"`', "an example"),
    (README, "after four hours", "the maxLifetime of the manifest above it"),
    (LIVE, "A run lasts less than an hour, so it costs at most one hour", "the watchman's 50 minutes, rounded up"),
    (LIVE, "`MAX_USD` an hour", "a price"),
    (MARKET, "`--for 30s`", "an example"),
    (MARKET, "a minute or more", "what real machines take"),
    (MARKET, "within a minute after the Secret changes", "Secrets are read every 30 s"),
    (METRICS, "alert above one second", "advice"),
    (METRICS, "alert above 0 for 10 minutes", "advice"),
    (OPERATOR, "takes over within 20 seconds", "the Lease, and the next try of the other replica"),
    (REQUESTS, "an hour. For more", "a price"),
    (REQUESTS, "what the machine costs an hour", "a price"),
    (REQUESTS, "--timeout=20m", "an example"),
    (SAFETY, "not even for a second", "no time at all"),
    (SAFETY, "in about a minute", "measured"),
    (SAFETY, "abandoned after a second", "what a mutant does"),
    (WORLD, "about half a minute", "measured"),
    (WORLD, "Secret for 20m", "an example"),
    (WORLD, "`FOR=30s` | `--for 30s`", "an example"),
)


def text_of(page: str) -> str:
    """Its prose, each line break as one space: without blocks of code, and without what only reports."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    if page in ENDS_BEFORE:
        text, found, _ = text.partition(ENDS_BEFORE[page])
        assert found, f"{page} has no {ENDS_BEFORE[page]}"
    return " ".join(text.split())


def parsed(written: str) -> timedelta | float:
    """As a person would read it."""
    written = written.strip()
    if written in SHARES:
        return SHARES[written]
    if written.endswith("%"):
        return float(written[:-1]) / 100
    if written.startswith("$"):
        return float(written[1:])
    compact = re.fullmatch(r"(\d+) ?([smh])", written)
    number, _, unit = written.rpartition(" ") if compact is None else (compact[1], "", compact[2])
    if unit == "times":
        return float(WORDS[number])
    half, number = number.startswith("half "), number.removeprefix("half ")
    seconds = float(WORDS.get(number) or number) * UNITS[unit if unit in UNITS else unit.removesuffix("s")]
    return of_seconds(seconds / 2 if half else seconds)


def pattern_of(figure: Figure) -> re.Pattern[str]:
    return re.compile(re.escape(figure.sentence).replace(r"\{\}", f"({FIGURE})"))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.page}: {figure.sentence}")
def test_a_figure_in_the_docs_is_the_one_in_the_code(figure: Figure):
    found = [parsed(each[1]) for each in pattern_of(figure).finditer(text_of(figure.page))]

    assert found, f"{figure.page} does not say {figure.sentence!r} with a figure any more"
    assert all(each == pytest.approx(figure.value, rel=1e-9) for each in found), (
        f"the code says {figure.value}, not {found}"
    )


def pages() -> Iterator[str]:
    for path in (ROOT / README, ROOT / SECURITY, *sorted((ROOT / "docs").glob("*.md"))):
        page = path.relative_to(ROOT).as_posix()
        if page not in OTHER_PAGES:
            yield page


@pytest.mark.parametrize("page", [*pages()])
def test_no_figure_stands_in_the_docs_without_a_constant(page: str):
    text = text_of(page)
    spans = [found.span() for row in FIGURES if row.page == page for found in pattern_of(row).finditer(text)]
    for where, words, _why in FREE:
        if where == page:
            assert words in text, f"{page} does not say {words!r} any more"
            spans += [found.span() for found in re.finditer(re.escape(words), text)]
    loose = [
        text[max(0, found.start() - 60) : found.end() + 30]
        for found in re.finditer(FIGURE, text)
        if not any(begin <= found.start() and found.end() <= end for begin, end in spans)
    ]

    assert not loose, f"bind it to its constant in FIGURES, or say in FREE why there is none: {loose}"


def test_the_page_of_safety_names_the_hours_and_seeds_that_are_run():
    text = (ROOT / SAFETY).read_text(encoding="utf-8")
    other = ", ".join(f"{name} ({kill.seed})" for name, kill in mutants.KILLS.items() if kill.seed != "1")

    assert f"Seeds are 1, except for {other}." in text
    assert (
        f"the default is {BENCH_HOURS} hours; make test runs {usual_amount(Path(test_safety.__file__), 'HOURS')}"
        in text
    )


# The table of amounts in DEVELOPMENT.md


DEVELOPMENT = ROOT / "DEVELOPMENT.md"
# Amounts that no row names: a row has sums or products of them, or they belong to a property that both run.
PARTS = {
    "tests/sim/test_operator.py": "faults twice, then quiet",
    "tests/sim/test_legacy_budgets.py": "faults twice, then quiet",
    "tests/sim/test_pools.py": "faults in three parts, then quiet",
    "tests/sim/test_canaries.py": "three parts of one history",
    "tests/sim/test_budget_histories.py": "lives within a step",
    "tests/sim/test_runaway.py": "one of three histories",
    "tests/sim/joining/test_secrecy.py": "how many faults must have been seen",
    "tests/sim/lifecycle/test_histories.py": "hours of one history",
    "tests/clients/schemathesis/test_http_api.py": "the time that it may take",
    "tests/contracts/talos/test_hostile_values.py": "renderings of hostile values",
    "tests/core": "seeds of properties of one function",
    "tests/project": "the rule itself",
}


def amounts(path: Path) -> Iterator[tuple[str, int, int]]:
    """Each `amount(usual, proving)` of a file, with the name that it is given; empty: none."""
    text = path.read_text(encoding="utf-8")
    for place in ast.walk(ast.parse(text)) if "amount(" in text else ():
        for child in ast.iter_child_nodes(place):
            if not (isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "amount"):
                continue
            given = [each.value for each in child.args[:2] if isinstance(each, ast.Constant)]
            if len(given) == 2:
                target = place.targets[0] if isinstance(place, ast.Assign) else None
                yield (target.id if isinstance(target, ast.Name) else ""), given[0], given[1]


def usual_amount(path: Path, name: str) -> int:
    return next(usual for called, usual, _ in amounts(path) if called == name)


def rows() -> list[tuple[set[int], set[int]]]:
    """The numbers of each row: in `make test`, in `make prove`."""
    table = DEVELOPMENT.read_text(encoding="utf-8").partition("| what | in `make test` |")[2].partition("\n\n")[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return [(numbers(row[1]), numbers(row[2])) for row in cells]


def numbers(text: str) -> set[int]:
    words = [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*\b", text)]
    return {*words, *(value for word, value in WORDS.items() if re.search(rf"\b{word}\b", text))}


def test_the_table_of_amounts_names_what_the_tests_say():
    """So that an amount is not changed without the table that tells what a release was tried with."""
    known = rows()
    loose = [
        f"{place}: {name or 'amount'}({usual}, {proving})"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name, usual, proving in amounts(path)
        if not any(usual in test and proving in prove for test, prove in known)
        and not (place := path.relative_to(ROOT).as_posix()).startswith(tuple(PARTS))
    ]

    assert loose == []
