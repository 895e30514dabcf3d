"""What a budget's account costs: time to assess, forecast, update and fold; memory, characters, and its error."""

import argparse
import random
import time
import tracemalloc
from collections.abc import Callable

from tgp.core.budgets.account import USD, USED, BudgetAccount, OpenPod, fresh
from tgp.core.budgets.assess import Limits, assess
from tgp.core.budgets.packing import pack
from tgp.core.budgets.spans import Sighting
from tgp.core.model.arrays import Ints, np

NOW = 1_800_000_000
DAY = 86_400
WANTED = "wanted: assess 5, forecast 10, update 10, fold 150, memory 64, characters 16384, between 0.002 at most"


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench accounting", description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--budgets", type=int, default=100)
    asked = parser.parse_args(options)
    tracemalloc.start()
    accounts = [fresh(24, NOW) for _ in range(asked.budgets)]
    starts, ends, amounts = _spans(asked.spans)
    shares = np.array_split(np.arange(asked.spans), asked.budgets)
    tracemalloc.clear_traces()
    fold_ms = _timed(lambda: _fold(accounts, shares, starts, ends, amounts))
    for number, account in enumerate(accounts):
        _open(account, 50, number)
    mb = (tracemalloc.get_traced_memory()[0] + sum(_bytes(each) for each in accounts)) / 1e6
    tracemalloc.stop()
    limits = Limits(10**15)
    assess_ms = min(_timed(lambda: [each.used(USED, NOW + 30) for each in accounts]) for _ in range(5))
    forecast_ms = min(
        _timed(lambda: [assess(limits, each, NOW + 30, exceeded=False) for each in accounts]) for _ in range(5)
    )
    update_us = min(_timed(lambda: _updates(accounts[0])) for _ in range(5))
    characters = _characters()
    between = _between(lambda luck: int(luck.gauss(0, 3600)))
    burst = _between(lambda luck: luck.randrange(300))
    print(f"use of {asked.budgets} budgets      {assess_ms:.2f} ms; with everything a status says {forecast_ms:.2f} ms")
    print(f"a pod begins and ends   {update_us:.1f} us; {asked.spans} spans from cold {fold_ms:.0f} ms; {mb:.1f} MB")
    print(f"in a status             {characters} characters: 5,000 pods a day, 720 h, 500 open")
    print(f"between two edges       at most {between:.3%} above the truth on a day of bursts")
    print(f"                        at most {burst:.3%} where all pods start within five minutes")
    print(WANTED)
    print(
        f"accounting assess_ms={assess_ms:.2f} forecast_ms={forecast_ms:.2f} update_us={update_us:.1f} "
        f"fold_ms={fold_ms:.0f} mb={mb:.1f} ledger_bytes={characters} between={between:.5f} burst={burst:.5f}"
    )
    return 0


def _spans(many: int) -> tuple[Ints, Ints, Ints]:
    luck = np.random.default_rng(1)
    ends = NOW - luck.integers(0, DAY, many)
    return ends - luck.integers(1, 7200, many), ends, luck.integers(1, 9, many) * 1000


def _fold(accounts: list[BudgetAccount], shares: list[Ints], starts: Ints, ends: Ints, amounts: Ints) -> None:
    for account, mine in zip(accounts, shares, strict=True):
        account.fold(USED, starts[mine], ends[mine], amounts[mine])


def _open(account: BudgetAccount, many: int, seed: int) -> None:
    luck = random.Random(seed)
    for _ in range(many):
        account.open[luck.randbytes(6)] = OpenPod(NOW - luck.randrange(DAY), 1000, 2_490_000)


def _updates(account: BudgetAccount) -> None:
    """A thousand pods: each result in microseconds is for one of them."""
    for number in range(1000):
        uid = number.to_bytes(6, "big")
        account.see(Sighting(uid, 1000, NOW - 7200, rate=2_490_000), NOW)
        account.see(Sighting(uid, 1000, NOW - 7200, NOW - 10), NOW)
    account.ended.clear()


def _characters() -> int:
    luck, account = random.Random(1), fresh(720, NOW)
    for _ in range(5000 * 30):
        end = NOW - luck.randrange(30 * DAY)
        gpus, length = luck.choice((1, 2, 4, 8)), luck.choice((300, 1200, 5400))
        account.charge(USED, end - length, end, gpus * 1000)
        account.charge(USD, end - length, end, gpus * luck.choice((1_290_000, 2_490_000)))
    _open(account, 500, 1)
    return len(pack(account))


def _between(start_of: Callable[[random.Random], int]) -> float:
    """The greatest error in 3,000 looks while they leave: 5,000 pods of some 20 minutes, and when each starts."""
    luck, account = random.Random(1), fresh(24, NOW)
    spans = []
    for _ in range(5000):
        start = NOW - 12 * 3600 + start_of(luck)
        spans.append((start, start + luck.randrange(900, 1500)))
        account.charge(USED, *spans[-1], 1000)
    starts, ends = np.array(spans, np.int64).T
    worst = 0.0
    first, last = int(starts.min()) + DAY, int(ends.max()) + DAY
    for at in np.linspace(first, last, 3000, dtype=np.int64).tolist():
        truth = 1000 * int(np.maximum(0, np.minimum(ends, at) - np.maximum(starts, at - DAY)).sum())
        error = account.closed(USED, at) - truth
        assert error >= 0, "below the truth"
        worst = max(worst, error / (5000 * 1200 * 1000))
    return worst


def _bytes(account: BudgetAccount) -> int:
    """Of its arrays, where the allocator does not tell."""
    return sum(table.nbytes for table in (account.sums, account.peaks, account.hourly))


def _timed(deed: object) -> float:
    assert callable(deed)
    began = time.process_time()  # of this process: others may be busy
    deed()
    return (time.process_time() - began) * 1000


if __name__ == "__main__":
    main([])
