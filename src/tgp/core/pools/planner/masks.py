"""Which sources the pods of a class may go to, decided once per distinct label value instead of once per source.

Labels of many sources are a table: for each key its distinct values, and a number into them for each source.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tgp.core.model.labels import LabelRequirement
from tgp.core.model.placement import NodeTerm
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint, untolerated
from tgp.core.pools.planner.problem import Bools, Index


@dataclass(frozen=True, slots=True)
class LabelColumn:
    values: tuple[str | None, ...]  # distinct; None: the label is absent
    place: Index  # by source: into `values`

    def admitted(self, admits: Callable[[str | None], bool]) -> Bools:
        verdicts = np.array([admits(value) for value in self.values], np.bool_)
        spread: Bools = verdicts[self.place]
        return spread


def label_column(values: Sequence[str | None]) -> LabelColumn:
    """From the value of each source."""
    places: dict[str | None, int] = {}
    place = np.array([places.setdefault(value, len(places)) for value in values], np.intp)
    return LabelColumn(tuple(places), place)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """What decides about sources besides their room: labels, taints and names."""

    size: int
    labels: Mapping[str, LabelColumn]  # a key that is missing here is a label that no source has
    taints: tuple[tuple[Taint, ...], ...]  # distinct
    taint_place: Index  # by source: into `taints`
    names: tuple[str, ...] = ()  # of Nodes, by source; empty: no source has a name yet

    def admits(self, pod: Pod) -> Bools:
        """By source: whether node selector, required node affinity and tolerations let the pod run there."""
        selected = np.ones(self.size, np.bool_)
        for key, value in pod.node_selector.items():
            selected &= self._column(LabelRequirement(key, "In", (value,)))
        terms = pod.affinity.node_terms
        if terms is not None:
            any_term = np.zeros(self.size, np.bool_)
            for term in terms:
                any_term |= self.admitted_by(term)
            selected &= any_term
        return selected & self.tolerated_by(pod)

    def tolerated_by(self, pod: Pod) -> Bools:
        verdicts = np.array([untolerated(each, pod.tolerations) is None for each in self.taints], np.bool_)
        spread: Bools = verdicts[self.taint_place]
        return spread

    def admitted_by(self, term: NodeTerm) -> Bools:
        """A term without requirements admits nothing; one about names nothing that has no name yet."""
        if not term.labels and not term.fields:
            return np.zeros(self.size, np.bool_)
        admitted = np.ones(self.size, np.bool_)
        for requirement in term.labels:
            admitted &= self._column(requirement)
        for requirement in term.fields:
            admitted &= self._named(requirement)
        return admitted

    def _column(self, requirement: LabelRequirement) -> Bools:
        column = self.labels.get(requirement.key)
        if column is None:
            return np.full(self.size, requirement.admits({}), np.bool_)
        key = requirement.key
        return column.admitted(lambda value: requirement.admits({} if value is None else {key: value}))

    def _named(self, requirement: LabelRequirement) -> Bools:
        if not self.names:
            return np.zeros(self.size, np.bool_)
        return np.array([requirement.admits({requirement.key: name}) for name in self.names], np.bool_)
