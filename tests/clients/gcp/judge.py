"""Run by Google's own client, in its own environment: script after script, each against the address it is given.

Each line of its input is `[url, key file, script]` as JSON, each line of its output what became of that script. One run
plays them all: to read the client in takes ten times as long as a script.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.api_core import exceptions
from google.auth.transport.requests import Request
from google.cloud import compute_v1 as compute
from google.oauth2 import service_account

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
ZONE = "us-central1-a"
PATIENCE_S = 60
REQUEST = "7a0f4f5e-52a0-4d0e-9b0e-2f5c7c1f4a11"


class Stage:
    """Where the script under way is played."""

    url: str
    info: dict[str, Any]  # what the key file says
    project: str

    def open(self, url: str, key_file: str) -> None:
        self.url, self.info = url, json.loads(Path(key_file).read_text())
        self.project = self.info["project_id"]


STAGE = Stage()


def credentials() -> service_account.Credentials:
    return service_account.Credentials.from_service_account_info(STAGE.info, scopes=[SCOPE])


def client(kind: Any) -> Any:
    return kind(credentials=credentials(), client_options={"api_endpoint": STAGE.url})


def machine(name: str, **changes: Any) -> compute.Instance:
    fields: dict[str, Any] = {
        "name": name,
        "machine_type": f"zones/{ZONE}/machineTypes/g2-standard-4",
        "labels": {"owner": "judge"},
        "disks": [
            compute.AttachedDisk(
                boot=True,
                auto_delete=True,
                initialize_params=compute.AttachedDiskInitializeParams(
                    source_image="projects/debian-cloud/global/images/family/debian-12", disk_size_gb=20
                ),
            )
        ],
        "network_interfaces": [compute.NetworkInterface(network="global/networks/default")],
        "metadata": compute.Metadata(items=[compute.Items(key="user-data", value="version: v1alpha1")]),
        "scheduling": compute.Scheduling(
            provisioning_model="SPOT",
            instance_termination_action="DELETE",
            on_host_maintenance="TERMINATE",
            automatic_restart=False,
        ),
    }
    return compute.Instance(**(fields | changes))


def insert(machines: Any, name: str, request_id: str = "", **changes: Any) -> Any:
    request = compute.InsertInstanceRequest(
        project=STAGE.project, zone=ZONE, instance_resource=machine(name, **changes)
    )
    if request_id:
        request.request_id = request_id
    return machines.insert(request=request)


def everything(machines: Any, **query: Any) -> list[Any]:
    request = compute.AggregatedListInstancesRequest(project=STAGE.project, **query)
    return [each for _, scope in machines.aggregated_list(request=request) for each in scope.instances]


def wait(operation: Any) -> None:
    """Until it is done. `operation.result()` itself would poll Google's own address, whatever endpoint was given."""
    operations = client(compute.ZoneOperationsClient)
    give_up_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_at:
        if (
            operations.wait(project=STAGE.project, zone=ZONE, operation=operation.name).status
            == compute.Operation.Status.DONE
        ):
            return
        time.sleep(0.1)
    raise TimeoutError(operation.name)


def shown(machines: Any, name: str) -> Any:
    """The machine once it is running."""
    give_up_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_at:
        try:
            found = machines.get(project=STAGE.project, zone=ZONE, instance=name)
        except exceptions.NotFound:
            found = None
        if found is not None and found.status == "RUNNING":
            return found
        time.sleep(0.1)
    raise TimeoutError(name)


# -- scripts -----------------------------------------------------------------------------------------------------------


def token() -> dict[str, Any]:
    """google-auth fetches a token from the address in the key file."""
    held = credentials()
    held.refresh(Request())
    return {"valid": held.valid, "token": bool(held.token), "expires": held.expiry.isoformat()}


def catalogue() -> dict[str, Any]:
    types = client(compute.MachineTypesClient)
    query = compute.AggregatedListMachineTypesRequest(
        project=STAGE.project, filter='name eq "g2-standard-[0-9]+"', max_results=7
    )
    rows = [each for _, scope in types.aggregated_list(request=query) for each in scope.machine_types]
    cards = client(compute.AcceleratorTypesClient)
    found = [each for _, scope in cards.aggregated_list(project=STAGE.project) for each in scope.accelerator_types]
    quiet = [name for name, scope in cards.aggregated_list(project=STAGE.project) if not scope.accelerator_types]
    return {
        "types": sorted({each.name for each in rows}),
        "rows": len(rows),
        "cpus": sorted({each.guest_cpus for each in rows if each.name == "g2-standard-48"}),
        "built_in": sorted({each.accelerators[0].guest_accelerator_type for each in rows}),
        "cards": sorted({each.name for each in found}),
        "most_v100": sorted({each.maximum_cards_per_instance for each in found if each.name == "nvidia-tesla-v100"}),
        "zones_without": sorted(quiet),
    }


def life() -> dict[str, Any]:
    """Ordered twice under one request id, looked at, and terminated."""
    machines = client(compute.InstancesClient)
    first = insert(machines, "judged-1", REQUEST)
    second = insert(machines, "judged-1", REQUEST)
    wait(first)
    running = shown(machines, "judged-1")
    listed = everything(machines)
    by_label = everything(machines, filter="labels.owner=judge")
    by_name = everything(machines, filter='name eq "judged-.*"')
    ending = machines.delete(project=STAGE.project, zone=ZONE, instance="judged-1")
    wait(ending)
    return {
        "one_operation": first.name == second.name,
        "listed": [each.name for each in listed],
        "by_label": len(by_label),
        "by_name": len(by_name),
        "type": running.machine_type.rpartition("/")[2],
        "labels": dict(running.labels),
        "model": running.scheduling.provisioning_model,
        "user_data": [each.value for each in running.metadata.items],
        "address": bool(running.network_interfaces[0].access_configs[0].nat_i_p),
        "created": bool(running.creation_timestamp),
        "left": [each.name for each in everything(machines)],
    }


def attached() -> dict[str, Any]:
    """N1 machines take their GPUs beside them."""
    machines = client(compute.InstancesClient)
    cards = [
        compute.AcceleratorConfig(
            accelerator_type=f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", accelerator_count=2
        )
    ]
    kind = f"zones/{ZONE}/machineTypes/n1-standard-8"
    wait(insert(machines, "judged-2", guest_accelerators=cards, machine_type=kind))
    found = shown(machines, "judged-2")
    return {
        "type": found.machine_type.rpartition("/")[2],
        "gpu": found.guest_accelerators[0].accelerator_type.rpartition("/")[2],
        "count": found.guest_accelerators[0].accelerator_count,
    }


def refusals() -> dict[str, Any]:
    """Every error is one that Google's client knows the kind of."""
    machines = client(compute.InstancesClient)
    empty = f"zones/{ZONE}/machineTypes/a3-highgpu-8g"
    live = compute.Scheduling(on_host_maintenance="MIGRATE")
    scripts: dict[str, Callable[[], Any]] = {
        "no_such_machine": lambda: machines.get(project=STAGE.project, zone=ZONE, instance="absent"),
        "no_such_end": lambda: machines.delete(project=STAGE.project, zone=ZONE, instance="absent"),
        "foreign_project": lambda: everything_of("another-owners"),
        "live_migration": lambda: insert(machines, "judged-3", scheduling=live),
        "bad_name": lambda: insert(machines, "Not_A_Name"),
        "no_image": lambda: insert(machines, "judged-4", disks=[]),
        "bad_filter": lambda: everything(machines, filter="name ~~ x"),
        "zero_request_id": lambda: insert(machines, "judged-5", "00000000-0000-0000-0000-000000000000"),
        "sold_out": lambda: insert(machines, "judged-6", machine_type=empty).result(timeout=PATIENCE_S),
    }

    def everything_of(project: str) -> Any:
        return list(machines.aggregated_list(project=project))

    return {name: kind_of(script) for name, script in scripts.items()}


def twice() -> dict[str, Any]:
    """The same name under another request id is refused: names are unique."""
    machines = client(compute.InstancesClient)
    wait(insert(machines, "judged-7"))
    shown(machines, "judged-7")
    return {"again": kind_of(lambda: insert(machines, "judged-7")), "listed": len(everything(machines))}


def kind_of(script: Callable[[], Any]) -> str:
    try:
        script()
    except exceptions.GoogleAPICallError as error:
        return f"{type(error).__name__}: {error.message} {error.errors}"
    return "no error"


SCRIPTS = {each.__name__: each for each in (token, catalogue, life, attached, refusals, twice)}


def played(url: str, key_file: str, script: str) -> dict[str, Any]:
    STAGE.open(url, key_file)
    try:
        return {"told": SCRIPTS[script]()}
    except Exception:  # noqa: BLE001 - whatever it is, the test shows it, and the next script is played
        return {"trouble": traceback.format_exc()}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(played(*json.loads(line))), flush=True)
