"""Plans beside those of Karpenter's own solver for the same pods and machines: how soon, and how expensive."""


def main(options: list[str]) -> int:
    from bench.karpenter.run import main as run

    return run(options)
