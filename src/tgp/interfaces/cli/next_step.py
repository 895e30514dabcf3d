"""The line "next: …": one command to paste, for the same cluster and with the program name that was used.

Other modules write commands in their short form (`tgp watch request/x`); this one adds the program name and flags.
"""

import shlex
from collections.abc import Sequence

import click
from rich.text import Text

from tgp.core.model.text import plain
from tgp.interfaces.cli.called import RAN

PROGRAM = "tgp"
REPEATED = ("kubeconfig", "context", "namespace")  # names of parameters; a namespace is an object's or the operator's
KUBECTLS = ("kubeconfig", "context")  # kubectl's flags of the same meaning; the line contains the namespace already
# With or without these flags it is the same command: they change what is shown or asked, not what is done.
IRRELEVANT_FLAGS = frozenset(
    {"--kubeconfig", "--context", "--namespace", "--operator-namespace", "-n", "-o", "--output", "--world", "--yes"}
)


def as_called(command: str) -> str:
    """`kubectl tgp watch --kubeconfig x request/y` for `tgp watch request/y`, if the program was called that way."""
    context = _context()
    first, _, rest = plain(command).partition(" ")
    if context is None or first not in {PROGRAM, "kubectl"}:
        return plain(command)
    if first == "kubectl":
        return " ".join(filter(None, [first, _flags(context, KUBECTLS), rest]))
    name, _, arguments = rest.partition(" ")
    target = _command(context, name)
    while isinstance(target, click.Group) and arguments:
        inner, _, arguments = arguments.partition(" ")
        name, target = f"{name} {inner}", target.commands.get(inner)
    root = context.find_root()
    world = str(root.params.get("world") or "")
    said = root.get_parameter_source("world") is click.core.ParameterSource.COMMANDLINE
    words = [root.info_name or PROGRAM, f"--world {shlex.quote(world)}" if world and said else ""]
    return " ".join(filter(None, [*words, name, _flags(context, _shared(context, target)), arguments]))


def with_called(sentence: str) -> str:
    """A sentence that ends with a command, with the command as the program was called."""
    said, see, command = sentence.rpartition("see tgp ")
    return f"{said}see {as_called(f'tgp {command}')}" if see else sentence


def next_lines(command: str) -> list[Text]:
    """One line, or none if the only suggestion is the command that just ran."""
    if not command or _same(command):
        return []
    return [Text.assemble(("next: ", "dim"), (as_called(command), "bold"))]


def _same(command: str) -> bool:
    context = _context()
    ran = context.find_root().meta.get(RAN) if context is not None else None
    return ran is not None and _meaning(command.split()[1:]) == _meaning(ran)


def _meaning(words: Sequence[str]) -> list[str]:
    """Without flags for cluster and output: `hold --kubeconfig x -o json` is `hold`."""
    kept: list[str] = []
    skip = False
    for word in words:
        name, equals, _ = word.partition("=")
        if skip:
            skip = False
        elif name in IRRELEVANT_FLAGS:
            skip = not equals and name != "--yes"
        else:
            kept.append(word)
    return sorted(kept)


def _context() -> click.Context | None:
    """Of the running command; None: no tgp command runs."""
    context = click.get_current_context(silent=True)
    return context if context is not None and isinstance(context.find_root().command, click.Group) else None


def _command(context: click.Context, name: str) -> click.Command | None:
    root = context.find_root()
    return root.command.get_command(root, name) if isinstance(root.command, click.Group) else None


def _shared(context: click.Context, target: click.Command | None) -> tuple[str, ...]:
    """The flags that both commands have with the same names: the operator's namespace is not a request's."""
    if target is None:
        return ()
    theirs = {param.name: param.opts for param in target.params}
    ours = {param.name: param.opts for param in context.command.params}
    return tuple(name for name in REPEATED if name in ours and theirs.get(name) == ours[name])


def _flags(context: click.Context, names: Sequence[str]) -> str:
    flags = {param.name: param.opts[-1] for param in context.command.params}
    given = {name: str(context.params.get(name) or "") for name in names}
    return " ".join(f"{flags[name]} {shlex.quote(value)}" for name, value in given.items() if value)
