"""Our list, watch, store, indexes and queue beside client-go's informer on the same served pods."""


def main(options: list[str]) -> int:
    from bench.cache.run import main as run

    return run(options)
