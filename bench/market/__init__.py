"""50,000 offers in one price book: how soon, how heavy, and how soon it answers, beside gpuhunt on the same offers."""


def main(options: list[str]) -> int:
    from bench.market.run import main as run

    return run(options)
