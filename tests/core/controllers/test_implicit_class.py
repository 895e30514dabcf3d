"""The implicit class exists while a request needs it, and only where there is no other."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.core.controllers.inventory import MemoryApi
from tgp.adapters.kube.event_channel import LocalCache
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST
from tgp.controllers.classes.implicit_class import KEY, AllClasses, ImplicitClass
from tgp.core.classes.default_class import IMPLICIT, implicit_record
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.core.model.workload import Metadata
from tgp.ports.cluster import Forbidden
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop


class ASecretReader:
    def __init__(self, *keys: str) -> None:
        self.keys: tuple[str, ...] | None = keys
        self.asked = 0

    async def read(self, name: str) -> Mapping[str, Secret] | None:
        assert name == "tgp-operator-secret"
        self.asked += 1
        await asyncio.sleep(0)
        if self.keys is None:
            raise Forbidden("no")
        return {key: Secret("x") for key in self.keys} or None


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    close_loop(loop)


class Stage:
    def __init__(self, loop: VirtualLoop, *keys: str) -> None:
        self.memory_api, self.secret_reader = MemoryApi(loop), ASecretReader(*keys)
        self.board: LocalCache[KubeObject[GPUNodeClass]] = LocalCache(GPU_NODE_CLASS)
        self.view = AllClasses(self.memory_api.classes, self.board.store)
        self._loop = loop
        self.keeper = ImplicitClass(
            self.memory_api.classes,
            self.memory_api.requests,
            self.secret_reader,
            self.memory_api.clock,
            default_backend="",
            show=self._show,
        )

    def _show(self, made: GPUNodeClass | None) -> None:
        version = self.board.next_version()
        if made is None:
            self.board.store.drop(KubeObject(key=KEY, resource_version=version))
        else:
            self.board.store.put(implicit_record(made, version))

    def turn(self) -> list[str]:
        """The providers of the implicit class; none: it is not there."""
        self.memory_api.look()
        self._loop.run_until_complete(self.keeper.reconcile(KEY))
        record = self.view.get(KEY)
        return [] if record is None or record.value is None else [each.name for each in record.value.spec.providers]

    def a_plain_request(self, name: str = "train") -> None:
        self.memory_api.create(GPU_REQUEST, "default", name, spec={"gpuType": "A10"})


def test_it_appears_with_the_first_request_that_needs_it_and_goes_with_the_first_class(loop):
    stage = Stage(loop, "VAST_API_KEY", "VULTR_API_KEY")
    assert stage.turn() == []
    assert stage.secret_reader.asked == 0, "no key is read while no request needs one"

    stage.a_plain_request()
    assert stage.turn() == ["vast", "vultr"]
    assert [record.key.name for record in stage.view.values()] == [IMPLICIT]

    stage.memory_api.a_class()
    assert stage.turn() == []
    assert [record.key.name for record in stage.view.values()] == ["rented"]
    assert len(stage.view) == 1


def test_it_follows_the_keys(loop):
    stage = Stage(loop)
    stage.a_plain_request()
    assert stage.turn() == []
    stage.secret_reader.keys = ("RUNPOD_API_KEY",)
    assert stage.turn() == ["runpod"]
    stage.secret_reader.keys = None
    assert stage.turn() == [], "a Secret that may not be read holds no key"


def test_it_stays_for_a_request_that_is_pinned_to_it_until_that_has_ended(loop):
    stage = Stage(loop, "VAST_API_KEY")
    stage.a_plain_request()
    stage.memory_api.status("train", nodeClass=IMPLICIT, phase="Pending")
    stage.memory_api.a_class()
    assert stage.turn() == ["vast"]

    stage.memory_api.status("train", phase="Finished")
    assert stage.turn() == []


def test_a_request_that_names_its_class_needs_no_other(loop):
    stage = Stage(loop, "VAST_API_KEY")
    stage.memory_api.a_request(node_class="later", endedAt="2026-11-16T12:00:00Z")

    assert stage.turn() == []


def test_it_is_woken_by_what_could_change_it(loop):
    stage = Stage(loop)
    stage.a_plain_request()
    stage.memory_api.a_request("named")
    stage.memory_api.look()
    keeper, requests = stage.keeper, stage.memory_api.requests
    plain, named = (requests.get(ObjectKey("default", name)) for name in ("train", "named"))
    stage.memory_api.status("train", message="looks")
    stage.memory_api.look()
    same = requests.get(ObjectKey("default", "train"))
    stage.memory_api.status("train", phase="Failed")
    stage.memory_api.look()
    ended = requests.get(ObjectKey("default", "train"))

    assert list(keeper.of_request(None, plain)) == [KEY]
    assert list(keeper.of_request(plain, same)) == []
    assert list(keeper.of_request(same, ended)) == [KEY]
    assert list(keeper.of_request(None, named)) == []
    assert list(keeper.of_secret(None, Metadata(key=ObjectKey("tgp-system", "tgp-operator-secret")))) == [KEY]
    assert list(keeper.of_secret(None, Metadata(key=ObjectKey("tgp-system", "other")))) == []
