"""What every folder of tests may ask for by name. Nothing here costs anything until a test asks."""

pytest_plugins = ["tools.controlplane.fixtures"]
