"""What every folder of tests may ask for by name. Nothing here costs anything until a test asks."""

import signal

pytest_plugins = ["tools.controlplane.fixtures"]

# A suite that was started in the background inherits an ignored SIGINT, and so would every program it starts: no test
# could then tell whether Ctrl-C ends anything.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
