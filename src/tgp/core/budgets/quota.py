"""A quota as it holds at one moment: how much, in which window or period, and the hours granted on top of it."""

from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal

from tgp.api.budget import GPUWorkloadBudgetSpec, Quota
from tgp.api.quantity import exact
from tgp.api.values import go_duration, microusd, rfc3339
from tgp.core.budgets.account import BUCKETS, BudgetAccount, fresh, width_of
from tgp.core.budgets.assess import MILLI_SECONDS, USD_SECONDS, Limits
from tgp.core.budgets.period import Period
from tgp.core.budgets.spans import seconds
from tgp.core.budgets.weights import weights_problem
from tgp.core.model.time_zone import UnknownTimeZone, time_zone

MOST_HOURS = Decimal(10**15)  # more cannot be used, nor be written with six places


def limits_of(spec: GPUWorkloadBudgetSpec, now: int) -> Limits:
    quota = spec.quota
    granted = [each for each in quota.extra if seconds(each.until) > now]
    hours = exact(quota.gpu_hours) + sum((exact(each.gpu_hours) for each in granted), Decimal())
    hours = min(hours, MOST_HOURS)
    return Limits(
        int((hours * MILLI_SECONDS).to_integral_value(ROUND_FLOOR)) or 1,
        None if quota.usd is None else microusd(quota.usd, "spec.quota.usd") * USD_SECONDS,
        min((seconds(each.until) for each in granted), default=None),
    )


def spec_problem(spec: GPUWorkloadBudgetSpec, namespace: str, operators: str) -> tuple[str, str] | None:
    """Why nothing can be counted by this spec, as a reason and a sentence. `operators`: the operator's namespace."""
    if spec.namespace_selector is not None and namespace != operators:
        return "InvalidSelector", (
            f"spec.namespaceSelector works only in the operator's namespace, {operators}: nothing is counted. "
            "Remove the field, or create the budget there"
        )
    try:
        time_zone(spec.quota.time_zone or "UTC")
    except UnknownTimeZone:
        return "UnknownTimeZone", (
            f"spec.quota.timeZone {spec.quota.time_zone} is not a time zone that the operator knows: nothing is "
            "counted. Write an IANA name such as Europe/Berlin"
        )
    weights = weights_problem(spec)
    return ("InvalidWeights", weights) if weights else None


def period_of(quota: Quota) -> Period | None:
    """None: a rolling window."""
    return None if quota.calendar is None else Period(quota.calendar, quota.time_zone or "UTC")


def window_of(quota: Quota) -> int:
    """Seconds that an account by this quota looks back at most."""
    return width_of(quota.window_hours, period_of(quota)) * BUCKETS


def fresh_account(quota: Quota, at: int) -> BudgetAccount:
    """Raises UnknownTimeZone."""
    return fresh(quota.window_hours, at, period_of(quota))


def counted_by(account: BudgetAccount, quota: Quota) -> BudgetAccount:
    """The same use, by the window or the period of this quota. Raises UnknownTimeZone."""
    period = period_of(quota)
    return account.with_window(width_of(quota.window_hours, period), period)


def window_words(quota: Quota, now: int) -> str:
    """For a sentence: in which time it was used."""
    period = period_of(quota)
    if period is None:
        return f"in the last {go_duration(timedelta(hours=quota.window_hours or 0))}"
    return f"since {rfc3339(datetime.fromtimestamp(period.bounds(now)[0], UTC))}"
