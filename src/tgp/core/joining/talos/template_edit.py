"""A template's documents during conversion, and the finding of each change."""

import copy
from collections.abc import Sequence
from typing import Any

from tgp.core.joining.talos.stream import Document, Path, spell
from tgp.core.model.machine_config import ConfigFinding, Conversion


class TemplateEdit:
    """The classic document is `config`, the others are `others`; lines are those of the template."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.conversions: list[Conversion] = []
        self.findings: list[ConfigFinding] = []
        self.config: dict[str, Any] = {}
        self.files_from: list[int] = []  # the index in the template of each remaining file
        self.others: list[dict[str, Any]] = []
        self._of_config: Document | None = None
        self._of_others: list[Document] = []
        for document in documents:
            self._sort(document)

    def _sort(self, document: Document) -> None:
        data = document.data
        if data is None:
            return
        if not isinstance(data, dict):
            self.findings.append(
                ConfigFinding(document.line, "", "is not a machine config: a mapping with machine and cluster")
            )
        elif "kind" in data:
            if any(_named(data) == _named(other) for other in self.others):
                line = document.line_of(("kind",))
                self.findings.append(ConfigFinding(line, spell(("kind",)), "is a duplicate name: keep one of the two"))
            self.others.append(copy.deepcopy(data))
            self._of_others.append(document)
        elif self._of_config is not None:
            self.findings.append(ConfigFinding(document.line, "", "is a second v1alpha1 document: merge both into one"))
        else:
            self.config = copy.deepcopy(data)
            self._of_config = document

    @property
    def written(self) -> dict[str, Any]:
        """The classic document as the template has it."""
        return self._of_config.data if self._of_config is not None else {}

    def line(self, path: Path) -> int:
        """In the classic document."""
        return self._of_config.line_of(path) if self._of_config is not None else 0

    def line_of_other(self, kind: str, path: Path = ()) -> int:
        for document in self._of_others:
            if document.data.get("kind") == kind:
                return document.line_of(path or ("kind",))
        return 0

    def lines(self) -> dict[str, int]:
        """By path, as findings about the result spell it."""
        lines: dict[str, int] = {}
        for document in (self._of_config, *self._of_others):
            if document is not None:
                prefix = prefix_of(document.data)
                for path, line in document.lines.items():
                    moved = self._moved(path) if not prefix else path
                    if moved is not None:
                        lines[f"{prefix}.{spell(moved)}" if prefix else spell(moved)] = line
        return lines

    def _moved(self, path: Path) -> Path | None:
        """The new index after files were left out; None: it was left out."""
        if path[:2] != ("machine", "files") or len(path) < 3 or not self.files_from:
            return path
        place = path[2]
        if place not in self.files_from:
            return None
        assert isinstance(place, int)
        return ("machine", "files", self.files_from.index(place), *path[3:])

    def told(self, path: Path, message: str, *, line: int | None = None) -> None:
        self.conversions.append(Conversion(self.line(path) if line is None else line, spell(path), message))

    def refused(self, path: Path, message: str) -> None:
        self.findings.append(ConfigFinding(self.line(path), spell(path), message))

    def get(self, *path: str) -> Any:
        """The value at the path; None: not set, or a parent is not a mapping."""
        here: Any = self.config
        for step in path:
            if not isinstance(here, dict):
                return None
            here = here.get(step)
        return here

    def put(self, path: tuple[str, ...], value: Any) -> None:
        here = self.config
        for step in path[:-1]:
            inner = here.get(step)
            if not isinstance(inner, dict):
                inner = here[step] = {}
            here = inner
        here[path[-1]] = value

    def drop(self, *path: str) -> Any:
        """Removes it, and every mapping that becomes empty."""
        return _drop(self.config, path)

    def other(self, kind: str, name: str | None = None) -> dict[str, Any] | None:
        for document in self.others:
            if document.get("kind") == kind and (name is None or document.get("name") == name):
                return document
        return None

    def remove_other(self, kind: str) -> None:
        self.others = [document for document in self.others if document.get("kind") != kind]


def prefix_of(document: dict[str, Any]) -> str:
    """Of paths in findings: empty for the classic document."""
    kind, name = _named(document)
    if not isinstance(kind, str):
        return ""
    return f"{kind}/{name}" if isinstance(name, str) and name else kind


def _named(document: dict[str, Any]) -> tuple[Any, Any]:
    return document.get("kind"), document.get("name")


def _drop(data: Any, path: tuple[str, ...]) -> Any:
    if not isinstance(data, dict) or path[0] not in data:
        return None
    if len(path) == 1:
        return data.pop(path[0])
    dropped = _drop(data[path[0]], path[1:])
    if data[path[0]] == {}:
        del data[path[0]]
    return dropped
