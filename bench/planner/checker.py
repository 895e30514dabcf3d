"""Is a packing right? Counted pod by pod and machine by machine; nothing of the planner's own code is used."""

from collections.abc import Sequence
from typing import Any


def violations(problem: Any, machines: Sequence[Any], unserved: Sequence[int]) -> list[str]:
    """What is wrong with it; empty: nothing."""
    wrong: list[str] = []
    served = [0] * len(problem.count)
    taken = [0] * len(problem.price)
    for machine in machines:
        taken[machine.source] += machine.copies
        for number, amount in machine.pods:
            served[number] += amount * machine.copies
            if amount < 1 or machine.copies < 1:
                wrong.append(f"source {machine.source}: {amount} pods of class {number} on {machine.copies} machines")
            if not problem.fits[number][machine.source]:
                wrong.append(f"class {number} may not run on source {machine.source}")
        for resource in range(len(problem.capacity[machine.source])):
            used = sum(int(problem.need[number][resource]) * amount for number, amount in machine.pods)
            if used > int(problem.capacity[machine.source][resource]):
                wrong.append(f"source {machine.source}: {used} of resource {resource} is more than it has")
        for place, rule in enumerate(problem.host_rules):
            owners = any(rule.owners[number] for number, _ in machine.pods)
            members = sum(amount for number, amount in machine.pods if rule.members[number])
            there = 0 if rule.present is None else int(rule.present[machine.source])
            before = rule.owned is not None and bool(rule.owned[machine.source])
            if (owners and members + there > rule.most) or (before and members and members + there > rule.most):
                wrong.append(f"source {machine.source}: {members} pods break host rule {place}")
    for number, count in enumerate(problem.count):
        if served[number] + unserved[number] != count or unserved[number] < 0:
            wrong.append(f"class {number}: {served[number]} served and {unserved[number]} not, of {count}")
    for source, stock in enumerate(problem.stock):
        shelf = None if problem.shelf is None else problem.shelf[source]
        alike = [source] if shelf is None else [each for each, other in enumerate(problem.shelf) if other == shelf]
        many = sum(taken[each] for each in alike)
        if taken[source] and many > stock:
            wrong.append(f"source {source}: {many} machines of {stock}")
    for limit in problem.limits:
        used = sum(float(limit.use[source]) * many for source, many in enumerate(taken))
        if used > limit.most * (1 + 1e-12):
            wrong.append(f"limit {limit.name}: {used} of {limit.most}")
    return wrong
