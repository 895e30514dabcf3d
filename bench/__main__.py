"""`python -m bench [NAME] [options]`: one measurement, or all of them one after another."""

import importlib
import pkgutil
import sys

import bench


def main(arguments: list[str]) -> int:
    names = [module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_")]
    if not arguments:
        return max((measure(name, []) for name in names), default=0)
    name, *options = arguments
    if name not in names:
        for known in names:
            print(f"{known:<12} {(importlib.import_module(f'bench.{known}').__doc__ or '').splitlines()[0]}")
        return 0 if name in {"-h", "--help"} else 2
    return measure(name, options)


def measure(name: str, options: list[str]) -> int:
    """Run a module's `main(options)`; its last line of output is `NAME key=value …`."""
    code: int = importlib.import_module(f"bench.{name}").main(options)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
