"""An in-memory Kubernetes API server behind the Http port.

    server = ApiServer(clock, entropy)
    answer = await server.handle(Call("GET", "/api/v1/nodes"))      # a Reply, or a Streaming for a watch

Beside it, in the same process, the parts of a simulated cluster (scheduler, kubelets, collectors) use
`server.local_api`, which is synchronous and obeys every rule of the server but authorisation and faults:

    local_api.get(POD, namespace, name)             -> object or None     (objects handed out are shared: never change
    local_api.objects(POD, namespace="", where=None) -> objects in order   them, use json_value.copied first)
    local_api.create(POD, obj)                      -> stored object       (raises status_errors.Failure: .code .reason)
    local_api.update(POD, obj), update_status(POD, obj)
    local_api.merge_patch(POD, namespace, name, change, subresource="status")
    local_api.delete(POD, namespace, name, grace_seconds=0, uid=…, propagation="Background")
    local_api.bind(namespace, pod, node)            the binding subresource
    local_api.evict(namespace, pod)                 the eviction subresource (Failure 429 when a budget blocks)
    async for changes in local_api.follow(POD, since=local_api.revision): …   each Change: type, record.obj, previous
    local_api.as_manager("kube-scheduler")          the same under another field manager

`server.registry` is the table of served resources (`Served`: group, version, plural, kind, singular, short_names,
categories, verbs, subresources, list_kind, crd, schema); `registry.changes` grows whenever it changes.
`server.store` has `revision` and `compact()`. `server.faults` holds the named faults.
"""

from tgp.sim.apiserver.server import ApiServer

__all__ = ["ApiServer"]
