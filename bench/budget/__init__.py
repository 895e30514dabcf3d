"""Budgets beside the truth, on a real control plane with KWOK: pods end and are deleted, the operator is killed."""


def main(options: list[str]) -> int:
    from bench.budget.run import main as run

    return run(options)
