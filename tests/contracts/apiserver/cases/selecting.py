"""Selectors in their odder forms, and the fields each built-in kind may be chosen by."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import config_map, pod
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, JOB, NAMESPACE, NODE, POD


@case(Area.WATCH)
async def label_selectors_forgive_blanks_and_know_domains(api: Api) -> None:
    for name, labels in (("a", {"example.org/tier": "web"}), ("b", {"example.org/tier": ""}), ("c", {})):
        await api.quiet.create(CONFIG_MAP, config_map(name, labels=labels))
    wanted = {
        " example.org/tier = web ": ["a"],
        "example.org/tier in ( web , db )": ["a"],
        "example.org/tier=": ["b"],
        "example.org/tier": ["a", "b"],
        "! example.org/tier": ["c"],
        "example.org/tier notin (web,)": ["c"],
        "example.org/tier!=": ["a", "c"],
    }
    for selector, names in wanted.items():
        assert (await api.list(CONFIG_MAP, labelSelector=selector)).names == names, selector


@case(Area.WATCH)
async def label_selectors_that_make_no_sense_are_refused(api: Api) -> None:
    for selector in ("a in ()x", "a,,b", "=b", "a>x", "a in (b", "a ! b", "x" * 64 + "=y", "a=" + "y" * 64):
        answer = await api.quiet.list(CONFIG_MAP, labelSelector=selector)
        api.note(selector, answer.status)
        assert answer.status == 400, selector


@case(Area.WATCH)
async def label_selectors_have_edges(api: Api) -> None:
    """What each of these means is the real server's to say."""
    await api.quiet.create(CONFIG_MAP, config_map("a", labels={"a": "b"}))
    for selector in ("a in ()", "a=b,", ",", "a==b,a=b", "a=b,a=c", "a in (b),a notin (c)", "a exists"):
        answer = await api.quiet.list(CONFIG_MAP, labelSelector=selector)
        api.note(selector, [answer.status, answer.names if answer.status == 200 else answer.message])


@case(Area.WATCH)
async def field_selectors_have_edges(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("a"))
    for selector in (
        "metadata.name==a",
        "metadata.name=a,",
        "metadata.name",
        "=a",
        "metadata.name=a,metadata.name=b",
        "",
    ):
        answer = await api.quiet.list(CONFIG_MAP, fieldSelector=selector)
        api.note(selector, [answer.status, answer.names if answer.status == 200 else answer.message])


@case(Area.WATCH)
async def nodes_are_chosen_by_whether_they_take_pods(api: Api) -> None:
    name = "case-node-selected"
    await api.quiet.create(NODE, {"metadata": {"name": name}, "spec": {"unschedulable": True}})
    chosen = await api.quiet.list(NODE, fieldSelector=f"spec.unschedulable=true,metadata.name={name}")
    assert chosen.names == [name]
    other = await api.quiet.list(NODE, fieldSelector=f"spec.unschedulable=false,metadata.name={name}")
    assert other.names == []
    await api.quiet.delete(NODE, name)


@case(Area.WATCH)
async def pods_are_chosen_by_more_of_their_fields(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1", "restartPolicy": "Never"}))
    await api.quiet.patch(POD, "p", {"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}, "status")
    for selector in (
        "spec.restartPolicy=Never",
        "spec.schedulerName=default-scheduler",
        "spec.serviceAccountName=default",
        "spec.hostNetwork=false",
        "status.podIP=10.0.0.9",
        "status.nominatedNodeName=",
    ):
        answer = await api.quiet.list(POD, fieldSelector=selector)
        api.note(selector, [answer.status, answer.names if answer.status == 200 else answer.message])
        assert answer.status == 200, selector


@case(Area.WATCH)
async def jobs_and_namespaces_are_chosen_by_their_state(api: Api) -> None:
    template: Json = {"spec": {"containers": [{"name": "main", "image": "x:1"}], "restartPolicy": "Never"}}
    await api.quiet.create(JOB, {"metadata": {"name": "one"}, "spec": {"template": template}})
    assert (await api.quiet.list(JOB, fieldSelector="status.successful=0")).names == ["one"]
    here = f"status.phase=Active,metadata.name={api.namespace}"
    assert (await api.quiet.list(NAMESPACE, fieldSelector=here)).names == [api.namespace]
    assert (await api.list(JOB, fieldSelector="spec.completions=1")).status == 400
