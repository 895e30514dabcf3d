"""The mask of a class over all sources says of each what the scheduler's rules say of one Node."""

import random
from collections.abc import Mapping

import numpy as np
import pytest

from tests.amounts import amount
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import NAME_FIELD, Affinity, NodeTerm
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint, Toleration, untolerated
from tgp.core.pools.planner.masks import SourceTable, label_column

KEYS = ("tgp.io/gpu-type", "tgp.io/gpu-memory", "zone", "team")
VALUES = ("A100", "24", "80", "a", "b", "x")
TAINTS = (Taint("tgp.io/ephemeral", "NoSchedule"), Taint("team", "NoExecute", "x"), Taint("soft", "PreferNoSchedule"))
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near")


def a_requirement(luck: random.Random, key: str) -> LabelRequirement:
    operator = luck.choice(OPERATORS)
    many = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, luck.randint(0, 2))
    return LabelRequirement(key, operator, tuple(luck.choice(VALUES) for _ in range(many)))


def a_term(luck: random.Random) -> NodeTerm:
    labels = tuple(a_requirement(luck, luck.choice((*KEYS, "absent"))) for _ in range(luck.randint(0, 2)))
    fields = (a_requirement(luck, NAME_FIELD),) if luck.random() < 0.2 else ()
    return NodeTerm(labels, fields)


def a_pod(luck: random.Random) -> Pod:
    terms = tuple(a_term(luck) for _ in range(luck.randint(0, 3))) if luck.random() < 0.7 else None
    tolerations = [Toleration(operator="Exists"), Toleration(key="tgp.io/ephemeral", operator="Exists")]
    return Pod(
        key=ObjectKey("team", "train"),
        node_selector={luck.choice(KEYS): luck.choice(VALUES)} if luck.random() < 0.4 else {},
        affinity=Affinity(terms),
        tolerations=tuple(luck.sample(tolerations, luck.randint(0, 2))),
    )


@pytest.mark.parametrize("seed", range(amount(60, 3000)))
def test_the_mask_is_the_rule_of_one_node_for_each_source(seed: int) -> None:
    luck = random.Random(seed)
    nodes = [
        (
            {key: luck.choice(VALUES) for key in KEYS if luck.random() < 0.7},
            tuple(taint for taint in TAINTS if luck.random() < 0.3),
        )
        for _ in range(luck.randint(1, 20))
    ]
    names = tuple(luck.choice(VALUES) + str(place) for place in range(len(nodes))) if luck.random() < 0.5 else ()
    taints = tuple(dict.fromkeys(each for _, each in nodes))
    table = SourceTable(
        len(nodes),
        {key: label_column([labels.get(key) for labels, _ in nodes]) for key in KEYS},
        taints,
        np.array([taints.index(each) for _, each in nodes], np.intp),
        names,
    )
    pod = a_pod(luck)

    for place, (labels, held) in enumerate(nodes):
        selected = all(labels.get(key) == value for key, value in pod.node_selector.items())
        terms = pod.affinity.node_terms
        if not names and terms is not None:  # a machine that has no name yet: no term about names admits it
            terms = tuple(term for term in terms if not term.fields)
        near = Affinity(terms).admits_node(names[place] if names else "", labels)
        expected = selected and near and untolerated(held, pod.tolerations) is None
        assert bool(table.admits(pod)[place]) is expected


@pytest.mark.parametrize("seed", range(amount(60, 3000)))
def test_a_rule_about_several_labels_is_asked_with_the_labels_of_each_source(seed: int) -> None:
    luck = random.Random(seed)
    nodes = [
        {key: luck.choice(VALUES[:3]) for key in KEYS if luck.random() < 0.6} for _ in range(luck.choice((0, 1, 5, 40)))
    ]
    table = SourceTable(
        len(nodes),
        {
            key: label_column([labels.get(key) for labels in nodes])
            for key in KEYS
            if any(key in each for each in nodes)
        },
        ((),),
        np.zeros(len(nodes), np.intp),
    )
    keys = luck.sample((*KEYS, "absent"), luck.randint(0, 4))
    asked: list[dict[str, str]] = []

    def admits(labels: Mapping[str, str]) -> bool:
        asked.append(dict(labels))
        return str(sorted(labels.items())).count("a") % 2 == 0

    judged = table.judged_by_labels(keys, admits).tolist()
    each_once = [dict(seen) for seen in {tuple(sorted(labels.items())) for labels in asked}]
    assert len(asked) == len(each_once)
    seen = [{key: labels[key] for key in keys if key in labels} for labels in nodes]
    assert judged == [admits(labels) for labels in seen]
