"""Lambda Labs as its clients see it: the wire of Lambda Cloud API 1.8.3, on the shared fleet engine."""

from tgp.sim.clouds.lambdalabs.simulator import SSH_KEY_NAME, LambdaSimulator, simulator

__all__ = ["SSH_KEY_NAME", "LambdaSimulator", "simulator"]
