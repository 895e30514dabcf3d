"""Plans for thousands of pods: how soon, and how close to the best possible, which is proven for each."""


def main(options: list[str]) -> int:
    from bench.planner.run import main as run

    return run(options)
