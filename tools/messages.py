"""Print every sentence that a user may read, with its place: `python -m tools.messages [path …]`.

Sentences are string literals of three words or more that are no docstring: messages of conditions and Events, errors,
output of the command line, help texts and field docs. What is given to a condition or an Event (`CARRIERS`) counts from
two words on. Left out are texts of assertions, casts and annotations: they are for us. What is filled in later is shown
as {…}. Without a path the messages of the chart's admission policies follow.
"""

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.steps import ROOT

SOURCE = Path("src/tgp")
POLICIES = Path("deploy/charts/tgp-operator/templates/policy")
LEFT_OUT = ("src/tgp/sim/",)  # simulators speak as the real servers do
WORDS = 3
WORDS_CARRIED = 2
# Calls that make a condition or an Event, or a part of one.
CARRIERS = frozenset(
    {"BootRefused", "ConditionUpdate", "EventMessage", "Gap", "Trouble", "Wait", "_Block", "_not_ready"}
)
# Calls whose argument of this number is a whole message of a condition, an Event or an error of the command line; in a
# call by name: `message`.
WHOLE = {
    "AbandonAttempt": 2,
    "BadParameter": 0,
    "ClickException": 0,
    "Complete": 2,
    "ConditionUpdate": 3,
    "EventMessage": 1,
    "NoPurchase": 1,
    "StartTermination": 1,
    "UsageError": 0,
    "Wait": 1,
    "Why": 1,
    "_not_ready": 1,
}
FOLDED = (">", "|")


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """(line, sentence) in the order of the file."""
    if file.suffix == ".yaml":
        yield from _of_policy(file.read_text(encoding="utf-8"))
        return
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    passed, carried = _for_us(nodes), _carried(nodes)
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in ast.walk(node) if part is not node}
    found = []
    for node in nodes:
        if id(node) in passed or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        text = " ".join(_shown(node).split())
        if len(text.split()) >= (WORDS_CARRIED if id(node) in carried else WORDS):
            found.append((node.lineno, text))
    yield from sorted(found)


def everything() -> Iterator[tuple[Path, int, str]]:
    """(file, line, sentence) of all that is shipped."""
    files = [each for each in sorted(SOURCE.rglob("*.py")) if not str(each).startswith(LEFT_OUT)]
    for file in (*files, *sorted(POLICIES.glob("*.yaml"))):
        for line, text in messages(file):
            yield file, line, text


def whole_messages(file: Path) -> Iterator[tuple[int, str]]:
    """(line, message) where the code has a message in one piece: what a variable contains is not followed."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        place = WHOLE.get(_name(node)) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and place is not None:
            named = [each.value for each in node.keywords if each.arg == "message"]
            for argument in (*node.args[place : place + 1], *named):
                yield from ((line, text) for line, text in _alternatives(argument) if text)


def _alternatives(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.IfExp(body=one, orelse=other):
            yield from _alternatives(one)
            yield from _alternatives(other)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _alternatives(each)
        case ast.Constant(lineno=line) | ast.JoinedStr(lineno=line):
            yield line, _shown(node)
        case _:
            pass


def _name(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _for_us(nodes: Iterable[ast.AST]) -> set[int]:
    """Docstrings of modules, classes, functions and fields; texts of assertions; casts and annotations."""
    found: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=value):
                found.add(id(value))
            case ast.Assert(msg=ast.AST() as text):
                found |= _below(text)
            case ast.Call(func=ast.Name(id="cast") | ast.Attribute(attr="cast"), args=[kind, *_]):
                found |= _below(kind)
            case ast.AnnAssign(annotation=kind) | ast.arg(annotation=ast.AST() as kind):
                found |= _below(kind) - _documented(kind)
            case ast.FunctionDef(returns=ast.AST() as kind) | ast.AsyncFunctionDef(returns=ast.AST() as kind):
                found |= _below(kind)
            case _:
                pass
    return found


def _documented(annotation: ast.AST) -> set[int]:
    """What `Annotated` adds to a type is for users: field docs and help texts."""
    calls = (node for node in ast.walk(annotation) if isinstance(node, ast.Call))
    return {each for call in calls for each in _below(call)}


def _carried(nodes: Iterable[ast.AST]) -> set[int]:
    calls = (node for node in nodes if isinstance(node, ast.Call))
    given = (call for call in calls if _name(call) in CARRIERS)
    return {id(argument) for call in given for argument in (*call.args, *(each.value for each in call.keywords))}


def _below(node: ast.AST) -> set[int]:
    return {id(each) for each in ast.walk(node)}


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_shown(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{…}"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _of_policy(text: str) -> Iterator[tuple[int, str]]:
    """`message` and `messageExpression` of a template, which is no YAML before Helm has filled it in."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"(\s*)(?:- )?message(?:Expression)?: (.+)", line)
        if found is None:
            continue
        depth, words = len(found[1]), [] if found[2].startswith(FOLDED) else [found[2]]
        for each in lines[number + 1 :]:
            if each.strip() and len(each) - len(each.lstrip()) <= depth:
                break
            words.append(each.strip())
        yield number + 1, " ".join(" ".join(words).split())


def main(chosen: list[str]) -> int:
    if not chosen:
        found = everything()
    else:
        roots = [Path(each) for each in chosen]
        files = [file for root in roots for file in (sorted(root.rglob("*.py")) if root.is_dir() else [root])]
        found = ((file, line, text) for file in files for line, text in messages(file))
    for file, line, text in found:
        print(f"{file}:{line}: {text}")
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
