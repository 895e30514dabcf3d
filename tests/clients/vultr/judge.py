"""Run by `vultr-python-client`, in its own environment, against the address it is given: one script, told as JSON.

python judge.py <url with /v2> <key> <script> [<argument>]

The client checks every answer against the schema of Vultr's OpenAPI document while it reads it.
"""

import base64
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from vultr_python_client import ApiClient, Configuration
from vultr_python_client.apis.tags.account_api import AccountApi
from vultr_python_client.apis.tags.instances_api import InstancesApi
from vultr_python_client.apis.tags.os_api import OsApi
from vultr_python_client.apis.tags.plans_api import PlansApi
from vultr_python_client.apis.tags.region_api import RegionApi
from vultr_python_client.apis.tags.snapshot_api import SnapshotApi
from vultr_python_client.exceptions import ApiException, ApiTypeError, ApiValueError

URL, KEY, SCENE, *REST = sys.argv[1:]
USER_DATA = b"machine:\n  type: worker\n"


def plain(value: Any) -> Any:
    """The client's own types as JSON's."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Decimal | int | float):
        return int(value) if value == int(value) else float(value)
    return str(value)


def search(client: ApiClient) -> Any:
    """Every shared plan in pages of three, the dedicated ones, every region, the systems, the account."""
    plans: list[Any] = []
    cursor: dict[str, str] = {}
    for _ in range(20):
        page = PlansApi(client).list_plans(query_params={"type": "vcg", "per_page": 3, **cursor}).body
        plans += page["plans"]
        if not page["meta"]["links"]["next"]:
            break
        cursor = {"cursor": str(page["meta"]["links"]["next"])}
    return {
        "plans": plans,
        "total": page["meta"]["total"],
        "regions": RegionApi(client).list_regions().body["regions"],
        "dedicated": PlansApi(client).list_plans(query_params={"type": "vdm"}).body["plans"],
        "here": {
            kind: RegionApi(client)
            .list_available_plans_region(path_params={"region-id": "ewr"}, query_params={"type": kind})
            .body["available_plans"]
            for kind in ("vcg", "vdm")
        },
        "systems": OsApi(client).list_os().body["os"],
        "account": AccountApi(client).get_account().body["account"],
    }


def launch(client: ApiClient) -> Any:
    body = {
        "region": "ewr",
        "plan": "vcg-a16-6c-64g-16vram",
        "os_id": 2284,
        "label": "judged",
        "tags": ["one", "two"],
        "user_data": base64.b64encode(USER_DATA).decode(),
        "enable_ipv6": False,
        "backups": "disabled",
    }
    return InstancesApi(client).create_instance(body=body).body["instance"]


def listed(client: ApiClient) -> Any:
    return InstancesApi(client).list_instances(query_params={"label": "judged", "per_page": 500}).body


def status(client: ApiClient) -> Any:
    return InstancesApi(client).get_instance(path_params={"instance-id": REST[0]}).body["instance"]


def userdata(client: ApiClient) -> Any:
    return InstancesApi(client).get_instance_userdata(path_params={"instance-id": REST[0]}).body["user_data"]


def halt(client: ApiClient) -> Any:
    return InstancesApi(client).halt_instance(path_params={"instance-id": REST[0]}).response.status


def destroy(client: ApiClient) -> Any:
    return InstancesApi(client).delete_instance(path_params={"instance-id": REST[0]}).response.status


def bare(client: ApiClient) -> Any:
    return InstancesApi(client).create_instance(body={"region": "ewr", "plan": "vcg-a16-6c-64g-16vram"}).body


def fetch(client: ApiClient) -> Any:
    body = {"url": REST[0], "description": "judged"}
    return SnapshotApi(client).create_snapshot_create_from_url(body=body).body["snapshot"]


def images(client: ApiClient) -> Any:
    return SnapshotApi(client).list_snapshots(query_params={"per_page": 500}).body


def forget(client: ApiClient) -> Any:
    return SnapshotApi(client).delete_snapshot(path_params={"snapshot-id": REST[0]}).response.status


SCRIPTS: dict[str, Callable[[ApiClient], Any]] = {
    each.__name__: each
    for each in (search, launch, listed, status, userdata, halt, destroy, bare, fetch, images, forget)
}


def main() -> int:
    configuration = Configuration(host=URL)
    configuration.access_token = KEY
    try:
        with ApiClient(configuration) as client:
            told = plain(SCRIPTS[SCENE](client))
    except ApiException as error:
        print(json.dumps({"refused": error.status, "said": json.loads(error.body)}))
        return 2
    except (ApiTypeError, ApiValueError, KeyError) as error:
        print(json.dumps({"broken": f"{type(error).__name__}: {error}"}))
        return 3
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
