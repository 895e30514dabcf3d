"""Which sources the pods of a class may go to, decided once per distinct label value instead of once per source.

Labels of many sources are a table: for each key its distinct values, and a number into them for each source.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tgp.core.model.arrays import Bools, Index, np
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.placement import Affinity, NodeTerm
from tgp.core.model.taints import Taint, Toleration, untolerated


class Placeable(Protocol):
    """What pods and the pods of a DaemonSet have in common."""

    @property
    def node_selector(self) -> Mapping[str, str]: ...

    @property
    def affinity(self) -> Affinity: ...

    @property
    def tolerations(self) -> tuple[Toleration, ...]: ...


@dataclass(frozen=True, slots=True)
class LabelColumn:
    values: tuple[str | None, ...]  # distinct; None: the label is absent
    place: Index  # by source: into `values`

    def at(self, source: int) -> str | None:
        return self.values[int(self.place[source])]

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
    names: tuple[str, ...] = ()  # of the Nodes among them, which stand first

    def taken(self, places: Index) -> "SourceTable":
        """These sources, as often and in the order that they are named. Not Nodes."""
        labels = {key: LabelColumn(column.values, column.place[places]) for key, column in self.labels.items()}
        return SourceTable(len(places), labels, self.taints, self.taint_place[places])

    def admits(self, pod: Placeable) -> Bools:
        """By source: whether node selector, required node affinity and tolerations let the pod run there."""
        return self.selected_by(pod) & self.tolerated_by(pod)

    def selected_by(self, pod: Placeable) -> Bools:
        """By source: whether node selector and required node affinity match."""
        selected = np.ones(self.size, np.bool_)
        for key, value in pod.node_selector.items():
            selected &= self._column(LabelRequirement(key, "In", (value,)))
        terms = pod.affinity.node_terms
        if terms is not None:
            any_term = np.zeros(self.size, np.bool_)
            for term in terms:
                any_term |= self.admitted_by(term)
            selected &= any_term
        return selected

    def tolerated_by(self, pod: Placeable) -> Bools:
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

    def matches_all(self, requirements: Iterable[LabelRequirement]) -> Bools:
        matched = np.ones(self.size, np.bool_)
        for requirement in requirements:
            matched &= self._column(requirement)
        return matched

    def judged_by_labels(self, keys: Iterable[str], admits: Callable[[Mapping[str, str]], bool]) -> Bools:
        """A rule that reads several labels together, asked once for each combination that some source has."""
        columns = [(key, self.labels[key]) for key in sorted(keys) if key in self.labels]
        place, distinct = np.zeros(self.size, np.intp), np.zeros(min(self.size, 1), np.intp)
        for _, column in columns:  # numbers of combinations; `distinct`: of each, a source that has it
            _, distinct, place = np.unique(
                place * len(column.values) + column.place, return_index=True, return_inverse=True
            )
        combined = [{key: column.at(source) for key, column in columns} for source in distinct.tolist()]
        labels = ({key: value for key, value in each.items() if value is not None} for each in combined)
        verdicts = np.array([admits(each) for each in labels], np.bool_)
        spread: Bools = verdicts[place]
        return spread

    def values(self, key: str) -> LabelColumn:
        """One label of all sources."""
        return self.labels.get(key) or LabelColumn((None,), np.zeros(self.size, np.intp))

    def _column(self, requirement: LabelRequirement) -> Bools:
        column = self.labels.get(requirement.key)
        if column is None:
            return np.full(self.size, requirement.admits({}), np.bool_)
        key = requirement.key
        return column.admitted(lambda value: requirement.admits({} if value is None else {key: value}))

    def _named(self, requirement: LabelRequirement) -> Bools:
        """By name: sources without one, which stand after those that have one, match nothing."""
        matched = np.zeros(self.size, np.bool_)
        matched[: len(self.names)] = [requirement.admits({requirement.key: name}) for name in self.names]
        return matched


def stacked(tables: Sequence[SourceTable]) -> SourceTable:
    """One after another; those with names first."""
    size = sum(each.size for each in tables)
    labels = {key: _stacked_column(tables, key) for key in dict.fromkeys(key for each in tables for key in each.labels)}
    places: dict[tuple[Taint, ...], int] = {}
    taint_place = np.concatenate(
        [
            np.array([places.setdefault(taints, len(places)) for taints in each.taints], np.intp)[each.taint_place]
            for each in tables
        ]
        or [np.zeros(0, np.intp)]
    )
    return SourceTable(size, labels, tuple(places), taint_place, tuple(name for each in tables for name in each.names))


def _stacked_column(tables: Sequence[SourceTable], key: str) -> LabelColumn:
    places: dict[str | None, int] = {}
    parts = []
    for table in tables:
        column = table.values(key)
        translate = np.array([places.setdefault(value, len(places)) for value in column.values], np.intp)
        parts.append(translate[column.place])
    return LabelColumn(tuple(places), np.concatenate(parts))
