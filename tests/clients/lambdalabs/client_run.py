"""The real `lai` command line, pointed at a simulator of Lambda Labs on a loopback port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.clients import client_run
from tests.clients.client_run import Said, WarmProgram, Watch
from tgp.sim.clouds.lambdalabs import LambdaSimulator

NAME = "lambda-ai-cloud-api-client"
REQUIREMENT = f"{NAME}==2.4.1"


class ClientRun(client_run.ClientRun[LambdaSimulator]):
    async def lai(self, *words: str, key: str = "") -> Said:
        return await self.run(*words, LAMBDA_CLOUD_BASE_URL=self.url, LAMBDA_CLOUD_TOKEN=key or self.simulator.key)

    async def started(self, name: str, *words: str) -> str:
        """A machine that is there and listed; its id."""
        said = await self.lai("start", "--instance-type", "gpu_1x_a10", "--ssh-key", "tgp", "--name", name, *words)
        assert said.code == 0, said.err
        self.watch.skip(10)
        return next(machine.id for machine in self.simulator.fleet.machines.values() if machine.name == name)


@asynccontextmanager
async def open_shop(program: WarmProgram, home: Path) -> AsyncIterator[ClientRun]:
    watch = Watch()
    opened = ClientRun(LambdaSimulator(watch, 1), watch, program, home)
    async with opened.open():
        yield opened
