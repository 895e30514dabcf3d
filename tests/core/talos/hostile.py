"""Values that try to be more than values. Shared by the fuzz tests of the renderer."""

from hypothesis import strategies as st

from tgp.core.joining.talos.variables import ALIASES, LISTS, VARIABLES

CANONICAL = tuple(name for name in VARIABLES if name not in ALIASES)

PIECES = (
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "\n  ",
    "\n---\n",
    "\n...\n",
    "---",
    "...",
    '"',
    "'",
    "''",
    "\\",
    '\\"',
    "\\n",
    "\\x00",
    ":",
    ": ",
    " #",
    "#",
    "- ",
    "\n- ",
    "? ",
    "| ",
    "|",
    ">",
    "|-\n",
    "&a",
    "&a ",
    "*a",
    "*a\n",
    "<<: *a",
    "!",
    "!!binary ",
    "!!python/object/apply:os.system ",
    "%",
    "%YAML 1.1\n",
    "%{",
    "${HOME}",
    "$(id)",
    "`id`",
    "{{",
    "}}",
    "{{.ClusterSecret}}",
    "{{ .MachineToken }}",
    "{{.PodSubnets}}",
    "{{if",
    "{",
    "}",
    "[",
    "]",
    ",",
    "@",
    "=",
    "~",
    "null",
    "true",
    "True",
    "off",
    "yes",
    "0600",
    "0o600",
    "1e3",
    ".inf",
    "2001-01-01",
    "1:30",
    "cluster:\n  secret: x\n",
    "\nmachine:\n  type: controlplane\n",
    "kind: Evil",
    "\nkey: -----BEGIN PRIVATE KEY-----",
    "\x00",
    "\x01",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\xa0",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\ufffe",
    "\uffff",
    "\u202e",
    "é",
    "漢字",
    "🙂",
    "\U0010ffff",
    "a",
    "A1",
)
MEBIBYTE = 1024 * 1024


def hostile_text(max_pieces: int = 12) -> st.SearchStrategy[str]:
    """Whole, and never half a character: what comes out of a Secret is Unicode, or is refused before."""
    anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
    return st.lists(st.sampled_from(PIECES) | anything, max_size=max_pieces).map("".join)


def hostile_values() -> st.SearchStrategy[dict[str, str | tuple[str, ...]]]:
    """One for every variable; the lists have a few items."""
    return st.fixed_dictionaries(
        {
            name: st.lists(hostile_text(4), max_size=3).map(tuple) if name in LISTS else hostile_text()
            for name in CANONICAL
        }
    )


def enormous(characters: int = MEBIBYTE) -> list[str]:
    """That many each: of one letter, of quotes, of lines that look like keys, of braces."""
    return [piece * (characters // len(piece)) for piece in ("a", '"', "x: y\n", "{{.NodeName}}")]
