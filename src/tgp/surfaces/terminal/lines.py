"""A scene told in lines, for pipes and logs: only what changed since the last telling."""

from tgp.surfaces.terminal.scene import Scene, Thing


class Teller:
    def __init__(self) -> None:
        self._told_things: dict[str, Thing] = {}
        self._told_events: set[tuple[object, ...]] = set()

    def tell(self, scene: Scene) -> list[str]:
        """One line for each object whose verdict changed and for each new happening, oldest first."""
        lines = []
        for happening in scene.happenings:
            mark = (happening.at, happening.about, happening.reason, happening.message)
            if mark not in self._told_events:
                sign = "!" if happening.warning else "·"
                lines.append(
                    f"{happening.at:%H:%M:%S} {sign} {happening.about}: {happening.reason}: {happening.message}"
                )
        self._told_events = {(h.at, h.about, h.reason, h.message) for h in scene.happenings}
        now_there = {thing.label: thing for thing in scene.things}
        for label, thing in now_there.items():
            before = self._told_things.get(label)
            if before is None or (before.state, before.reason) != (thing.state, thing.reason):
                lines.append(f"{scene.now:%H:%M:%S} = {label}: {thing.state or '?'} {thing.reason}: {thing.message}")
        lines += [f"{scene.now:%H:%M:%S} = {label}: gone" for label in self._told_things if label not in now_there]
        self._told_things = now_there
        return lines
