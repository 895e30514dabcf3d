"""How a client finds its way: versions, groups, resources, schemas, health."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import GROUP
from tests.contracts.apiserver.suite import Area, case

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
# The verbs and short names of what the operator and kubectl use; other groups may be served by one server alone.
USED = {
    "/api/v1": ("pods", "nodes", "namespaces", "secrets", "configmaps", "serviceaccounts", "events"),
    "/apis/apps/v1": ("deployments", "daemonsets", "replicasets", "statefulsets"),
    "/apis/batch/v1": ("jobs", "cronjobs"),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/events.k8s.io/v1": ("events",),
    "/apis/certificates.k8s.io/v1": ("certificatesigningrequests",),
    "/apis/apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "/apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
}


@case(Area.DISCOVERY)
async def the_version_is_told(api: Api) -> None:
    answer = await api.quiet.call("GET", "/version")
    api.note("version", [answer.status, answer.body["major"], answer.body["minor"]])
    assert answer.body["gitVersion"].startswith(f"v{answer.body['major']}.{answer.body['minor']}.")


@case(Area.DISCOVERY)
async def the_core_group_is_at_api(api: Api) -> None:
    answer = await api.quiet.call("GET", "/api")
    api.note("versions", [answer.status, answer.body["kind"], answer.body["versions"]])
    assert answer.body["versions"] == ["v1"]


async def _ours_is_told(quiet: Api) -> bool:
    """The suite's kinds were put up a moment ago; discovery follows."""
    plain = await quiet.call("GET", "/apis")
    whole = await quiet.call("GET", "/apis", accept=AGGREGATED)
    named = {item["metadata"]["name"]: item for item in whole.body.get("items", ())}
    return (
        GROUP in {group["name"] for group in plain.body["groups"]}
        and GROUP in named
        and len(named[GROUP]["versions"][0]["resources"]) == 2
    )


@case(Area.DISCOVERY)
async def named_groups_are_at_apis(api: Api) -> None:
    await api.eventually(_ours_is_told)
    answer = await api.quiet.call("GET", "/apis")
    groups = {group["name"]: group for group in answer.body["groups"]}
    used = sorted({path.split("/")[2] for path in USED if path.startswith("/apis/")})
    api.note("groups", {name: groups[name]["preferredVersion"] for name in [*used, GROUP]})
    one = await api.call("GET", f"/apis/{GROUP}")
    assert one.body["kind"] == "APIGroup"


@case(Area.DISCOVERY)
async def the_resources_of_a_group_are_told_alike(api: Api) -> None:
    for path, wanted in USED.items():
        answer = await api.quiet.call("GET", path)
        shown: Json = {}
        for resource in answer.body["resources"]:
            if resource["name"].split("/")[0] in wanted and resource["name"].count("/") == 0:
                shown[resource["name"]] = resource
        api.note(path, shown)
        assert sorted(shown) == sorted(wanted), path


@case(Area.DISCOVERY)
async def subresources_we_use_are_told(api: Api) -> None:
    for path, wanted in (
        ("/api/v1", ("pods/status", "pods/eviction", "pods/binding", "nodes/status", "serviceaccounts/token")),
        ("/apis/certificates.k8s.io/v1", ("certificatesigningrequests/approval", "certificatesigningrequests/status")),
    ):
        answer = await api.quiet.call("GET", path)
        shown = {one["name"]: one for one in answer.body["resources"] if one["name"] in wanted}
        api.note(path, shown)
        assert sorted(shown) == sorted(wanted)


@case(Area.DISCOVERY)
async def one_answer_tells_all_groups_at_once(api: Api) -> None:
    """kubectl asks this way first."""
    await api.eventually(_ours_is_told)
    answer = await api.quiet.call("GET", "/apis", accept=AGGREGATED)
    kind = next(value for name, value in answer.headers if name.lower() == "content-type")
    api.note("content type", kind)
    assert answer.body["kind"] == "APIGroupDiscoveryList"
    groups = {item["metadata"]["name"]: item for item in answer.body["items"]}
    (version,) = groups[GROUP]["versions"]
    api.note("our group", version)
    apps = next(version for version in groups["apps"]["versions"] if version["version"] == "v1")
    api.note("workloads", _told(apps, {"deployments", "daemonsets"}, {"status", "scale"}))
    core = await api.quiet.call("GET", "/api", accept=AGGREGATED)
    (version,) = core.body["items"][0]["versions"]
    api.note("the core group", _told(version, {"pods", "nodes", "configmaps"}, {"status", "binding", "eviction"}))


def _told(version: Json, resources: set[str], subresources: set[str]) -> Json:
    """What is told of these; a server may know more."""
    return {
        one["resource"]: {
            **one,
            "subresources": [sub for sub in one.get("subresources", ()) if sub["subresource"] in subresources],
        }
        for one in version["resources"]
        if one["resource"] in resources
    }


@case(Area.DISCOVERY)
async def unknown_paths_groups_and_versions_are_not_found(api: Api) -> None:
    for path in (
        "/nothing",
        "/api/v9",
        "/apis/none.tgp.io",
        "/apis/none.tgp.io/v1",
        f"/apis/{GROUP}/v9",
        "/api/v1/none",
    ):
        assert (await api.call("GET", path)).status == 404, path


@case(Area.DISCOVERY)
async def health_is_a_word(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await api.call("GET", path)
        assert (answer.status, answer.body) == (200, "ok")


@case(Area.DISCOVERY)
async def the_schema_of_a_custom_kind_is_published(api: Api) -> None:
    async def published(quiet: Api) -> bool:
        index = await quiet.call("GET", "/openapi/v3")
        return f"apis/{GROUP}/v1" in index.body["paths"]

    await api.eventually(published)
    document = await api.quiet.call("GET", f"/openapi/v3/apis/{GROUP}/v1")
    schemas = document.body["components"]["schemas"]
    widget = schemas["io.tgp.contract.v1.Widget"]
    api.note("properties", sorted(widget["properties"]))
    api.note("kind", widget["x-kubernetes-group-version-kind"])
    api.note("spec", sorted(widget["properties"]["spec"]["properties"]))
    api.note("size", widget["properties"]["spec"]["properties"]["size"])
    api.note("description", widget["description"])


@case(Area.DISCOVERY)
async def the_schemas_of_built_in_kinds_are_published(api: Api) -> None:
    index = await api.quiet.call("GET", "/openapi/v3")
    for path in ("api/v1", "apis/apps/v1", "apis/batch/v1", "apis/coordination.k8s.io/v1"):
        assert path in index.body["paths"], path
    document = await api.quiet.call("GET", "/openapi/v3/api/v1")
    schemas = document.body["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    api.note("pod", [sorted(pod["properties"]), pod["x-kubernetes-group-version-kind"]])
    assert "spec" in pod["properties"]
