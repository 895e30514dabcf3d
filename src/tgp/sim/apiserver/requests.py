"""One authorised request on one resource, to its answer."""

from collections.abc import Callable
from dataclasses import dataclass

from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver.answers import ResponseForm, json_answer, reply
from tgp.sim.apiserver.api_faults import WatchFaultDraw, stale_revision, watch_refusal
from tgp.sim.apiserver.authentication import Authentication
from tgp.sim.apiserver.binding import bind
from tgp.sim.apiserver.content import decode_text, media_type, read_body
from tgp.sim.apiserver.core import Ask, Core, Write
from tgp.sim.apiserver.eviction import evict
from tgp.sim.apiserver.faults import ApiFaults, Hit
from tgp.sim.apiserver.json_value import Json, list_at
from tgp.sim.apiserver.options import WriteOptions, read_delete_options, read_list_options, read_write_options
from tgp.sim.apiserver.patch.dispatch import APPLY_PATCH, patch, patch_kind, reader
from tgp.sim.apiserver.plain_paths import NOT_FOUND_PAGE, TEXT
from tgp.sim.apiserver.registry import CREATE_ONLY, Served
from tgp.sim.apiserver.reviews import request_token, review
from tgp.sim.apiserver.routes import Route
from tgp.sim.apiserver.scale import rescale, scale_of
from tgp.sim.apiserver.status_errors import (
    JSON_HEADERS,
    Failure,
    bad_request,
    method_not_allowed,
    no_such_path,
    not_found,
)
from tgp.sim.apiserver.tables.view import TableView
from tgp.sim.apiserver.verbs.create import CreateOutcome, create
from tgp.sim.apiserver.verbs.delete import Removal, delete
from tgp.sim.apiserver.verbs.read import get, list_page
from tgp.sim.apiserver.verbs.update import replace
from tgp.sim.apiserver.watch import Watcher, error_line

Logs = Callable[[Json, str], str]  # (pod, container) → what it printed


@dataclass(slots=True)
class Request:
    """Everything known about it when a verb begins."""

    core: Core
    authentication: Authentication
    faults: ApiFaults
    logs: Logs
    call: Call
    route: Route
    served: Served
    ask: Ask
    hit: Hit

    @property
    def namespace(self) -> str:
        return self.route.namespace if self.served.namespaced else ""

    def answer(self) -> Reply | Streaming:
        refusal = self._not_here()
        if refusal is not None:
            return refusal
        if self.route.subresource and self.route.subresource not in {"status", "approval", "finalize"}:
            return self._subresource()
        match self.route.verb:
            case "get":
                return self._get()
            case "list":
                return self._list()
            case "watch":
                return self._watch()
            case "create":
                return self._create()
            case "update":
                return self._update()
            case "patch":
                return self._patch()
            case "delete":
                return self._delete()
            case _:
                return self._delete_collection()

    def _not_here(self) -> Reply | None:
        """A path or a verb this resource does not have."""
        route, served = self.route, self.served
        if route.namespace and not served.namespaced and served.kind != "Namespace":
            return NOT_FOUND_PAGE
        if route.subresource:
            sub = served.subresource(route.subresource)
            if sub is None:
                raise self._no_such_subresource()
            return None if route.verb in sub.verbs else self._method_not_allowed()
        if served.namespaced and not route.namespace and (route.name or route.verb in {"create", "deletecollection"}):
            return NOT_FOUND_PAGE if route.name else self._method_not_allowed()
        if route.verb == "create" and route.name:
            return self._method_not_allowed()
        if route.verb not in served.verbs or (route.verb in {"update", "patch"} and not route.name):
            return self._method_not_allowed()
        return None

    def _no_such_subresource(self) -> Failure:
        served = self.served
        return not_found(served.group, served.plural, self.route.name) if served.custom else no_such_path()

    def _method_not_allowed(self) -> Reply:
        if not self.served.custom:
            raise method_not_allowed()
        text = f'{self.route.verb} is not supported on resources of kind "{self.served.plural}.{self.served.group}"'
        details: Json = {"group": self.served.group, "kind": self.served.plural}
        raise Failure(405, "MethodNotAllowed", text, details)

    def _write(self, options: WriteOptions) -> Write:
        route = self.route
        return Write(self.core, self.served, self.ask, self.namespace, route.name, route.subresource, options)

    def _form(self) -> ResponseForm:
        return ResponseForm.wanted(self.call, self.served, self.core.now)

    # reading

    def _get(self) -> Reply:
        form = self._form()
        asked = self.call.parameter("resourceVersion")
        record = get(self.core, self.served, self.namespace, self.route.name, asked)
        return reply(form.one(record), self.ask)

    def _list(self) -> Reply:
        form = self._form()
        options = read_list_options(self.call, watching=False)
        stale = stale_revision(self.faults, self.hit, options.resource_version, self.core.store.revision)
        page = list_page(self.core, self.served, self.namespace, options, as_of=stale)
        return reply(form.many(page), self.ask)

    def _watch(self) -> Streaming:
        form = self._form()
        options = read_list_options(self.call, watching=True)
        refusal, inside = watch_refusal(self.faults, self.hit)
        if refusal is not None and not inside:
            raise refusal
        watch_faults = WatchFaultDraw(self.faults, self.hit, self.core.entropy)
        watcher = Watcher(self.core, self.served, self.namespace, options, watch_faults)
        if not form.is_plain:
            watcher.render_with(form.watched)
        if refusal is not None:
            watcher.begin_with(error_line(refusal))
        stale = stale_revision(self.faults, self.hit, options.resource_version, self.core.store.revision)
        if stale is not None:
            watcher.start_from(max(stale, self.core.store.floor(self.served.storage)))
        return Streaming(200, JSON_HEADERS, watcher.pieces())

    # writing

    def _create(self) -> Reply:
        form = self._form()
        options = read_write_options(self.call, "CreateOptions")
        sent = read_body(self.call, self.served, options, self.ask)
        if self.served.verbs == CREATE_ONLY:
            return self._review(sent, options)
        return self._written(form, create(self._write(options), sent))

    def _review(self, sent: Json, options: WriteOptions) -> Reply:
        if self.served.kind == "Binding":
            name = (sent.get("metadata") or {}).get("name", "")
            pods = self.core.registry.find("", "v1", "pods")
            assert pods is not None, "a built-in kind"
            return json_answer(
                bind(Write(self.core, pods, self.ask, self.namespace, name, options=options), sent), self.ask, 201
            )
        done = review(self._write(options), self.authentication, sent)
        return json_answer(done, self.ask, 201)

    def _update(self) -> Reply:
        form = self._form()
        options = read_write_options(self.call, "UpdateOptions")
        sent = read_body(self.call, self.served, options, self.ask)
        outcome = replace(self._write(options), sent)
        return self._written(form, outcome)

    def _patch(self) -> Reply:
        form = self._form()
        kind = patch_kind(self.served, self.call)
        options = read_write_options(self.call, "PatchOptions", applying=kind == APPLY_PATCH)
        return self._written(form, patch(self._write(options), kind, self.call.body))

    def _written(self, form: ResponseForm, outcome: CreateOutcome) -> Reply:
        return reply(form.one(outcome.record), self.ask, 201 if outcome.created else 200)

    # deleting

    def _delete(self) -> Reply:
        form = self._form()
        options = read_delete_options(self.call)
        removal = delete(self.core, self.served, self.namespace, self.route.name, options)
        status = 202 if not removal.gone and options.orphan_dependents is False else 200
        if not removal.status_only:
            return reply(form.one(removal.record), self.ask, status)
        return json_answer(self._removed_status(removal), self.ask, status)

    def _removed_status(self, removal: Removal) -> Json:
        meta = removal.record.obj["metadata"]
        details: Json = {"name": meta["name"]}
        if self.served.group:
            details["group"] = self.served.group
        details |= {"kind": self.served.plural, "uid": meta["uid"]}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _delete_collection(self) -> Reply:
        """Every object the selectors find; those that were gone already count as gone."""
        form = self._form()
        options = read_delete_options(self.call)
        page = list_page(self.core, self.served, self.namespace, read_list_options(self.call, watching=False))
        for record in page.records:
            meta = record.obj["metadata"]
            try:
                delete(self.core, self.served, meta.get("namespace", ""), meta["name"], options)
            except Failure as failure:
                if failure.code != 404:
                    raise
        return reply(form.many(page), self.ask)

    # subresources with a kind of their own

    def _subresource(self) -> Reply:
        match self.route.subresource:
            case "scale":
                return self._scale()
            case "log":
                return self._log()
        options = read_write_options(self.call, "CreateOptions")
        sent = decode_text(self.call.body, yaml=media_type(self.call) == "application/yaml")
        match self.route.subresource:
            case "eviction":
                done = evict(self._write(options), sent)
            case "binding":
                done = bind(self._write(options), sent)
            case _:
                done = request_token(self._write(options), self.authentication, sent)
        return json_answer(done, self.ask, done.get("code", 201))

    def _scale(self) -> Reply:
        core, served, namespace, name = self.core, self.served, self.namespace, self.route.name
        if self.route.verb == "get":
            scale = scale_of(served, get(core, served, namespace, name).obj)
            view = TableView.wanted(self.call, served, kind=("autoscaling", "Scale"))
            if view is not None:
                return reply(view.listed([scale], scale["metadata"], core.now()), self.ask)
            return json_answer(scale, self.ask)
        if self.route.verb == "update":
            options = read_write_options(self.call, "UpdateOptions")
            sent = decode_text(self.call.body, yaml=False)
            done = rescale(self._write(options), lambda _: sent)
        else:
            options = read_write_options(self.call, "PatchOptions")
            patched = reader(served, media_type(self.call), self.call.body)
            done = rescale(self._write(options), patched)
        return json_answer(done, self.ask)

    def _log(self) -> Reply:
        pod = get(self.core, self.served, self.namespace, self.route.name).obj
        names = [container["name"] for container in list_at(pod, "spec", "containers")]
        wanted = self.call.parameter("container")
        if not wanted and len(names) > 1:
            listed = " ".join(names)
            raise bad_request(
                f"a container name must be specified for pod {self.route.name}, choose one of: [{listed}]"
            )
        if wanted and wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {self.route.name}")
        text = self.logs(pod, wanted or names[0])
        tail = self.call.parameter("tailLines")
        if tail.isdigit():
            kept = int(tail)
            lines = text.splitlines(keepends=True)
            text = "".join(lines[len(lines) - kept :]) if kept < len(lines) else text
        return Reply(200, text.encode(), TEXT)
