"""What every folder of tests may ask for by name. Nothing here costs anything until a test asks."""

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["tools.controlplane.fixtures"]

# A suite that was started in the background inherits an ignored SIGINT, and so would every program it starts: no test
# could then tell whether Ctrl-C ends anything.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about what else the machine does than about the rule it tries.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
