"""What every folder of tests may ask for by name. Nothing here costs anything until a test asks."""

import gc
import signal

from hypothesis import HealthCheck, settings

from tests.amounts import amount

pytest_plugins = ["tools.controlplane.fixtures"]

# A suite that was started in the background inherits an ignored SIGINT, and so would every program it starts: no test
# could then tell whether Ctrl-C ends anything.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Simulated worlds are large and live long: looking for garbage as often as Python does took a fifth of their time.
gc.set_threshold(50_000, 20, 50)


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: no collection looks through it again."""
    gc.collect()
    gc.freeze()


# How long an example takes says more about what else the machine does than about the rule it tries.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=amount(50, 1000)
)
settings.load_profile("untimed")
