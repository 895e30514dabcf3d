"""An in-memory Kubernetes API server behind the Http port.

    server = ApiServer(clock, entropy)
    answer = await server.handle(Call("GET", "/api/v1/nodes"))      # a Reply, or a Streaming for a watch

Beside it, in the same process, the parts of a pretend cluster (scheduler, kubelets, collectors) use
`server.backstage`, which is synchronous and obeys every rule of the server but authorisation and faults:

    backstage.get(POD, namespace, name)             -> object or None     (objects handed out are shared: never change
    backstage.objects(POD, namespace="", where=None) -> objects in order   them, use json_value.copied first)
    backstage.create(POD, obj)                      -> stored object       (raises status_errors.Failure: .code .reason)
    backstage.update(POD, obj), update_status(POD, obj)
    backstage.merge_patch(POD, namespace, name, change, subresource="status")
    backstage.delete(POD, namespace, name, grace_seconds=0, uid=…, propagation="Background")
    backstage.bind(namespace, pod, node)            the binding subresource
    backstage.evict(namespace, pod)                 the eviction subresource (Failure 429 when a budget blocks)
    async for changes in backstage.follow(POD, since=backstage.revision): …   each Change: type, record.obj, previous
    backstage.as_manager("kube-scheduler")          the same under another field manager

`server.registry` is the table of served resources (`Served`: group, version, plural, kind, singular, short_names,
categories, verbs, subresources, list_kind, crd, schema); `registry.changes` grows whenever it changes.
`server.store` has `revision` and `compact()`. `server.faults` holds the named faults.
"""

from tgp.sim.apiserver.server import ApiServer

__all__ = ["ApiServer"]
