"""What the judges read, merged into the notation of our own table of keys: where one starts when a release is added."""

from collections.abc import Iterator
from typing import Any

from tools.judge.bench import Judge

FORMS = {
    "string": "",
    "bool": "?",
    "duration": "~",
    "any": "*",
    "own:ArgValue": "|",
    "own:Endpoint": "=url",
    "own:URL": "=url",
    "own:Base64Bytes": "=base64",
    "own:DiskSize": "=size",
    "own:InstallDiskSizeMatcher": "=sizes",
    "text:Size": "=space",
    "text:ByteSize": "=bytes",
    "text:Addr": "=address",
    "text:Prefix": "=cidr",
    "text:AddrPort": "=addressport",
    "text:AutoHostnameKind": "=auto",
    "text:DefaultAction": "=action",
    "text:Protocol": "=protocol",
    "text:ClientIdentifier": "=identifier",
    "text:EncryptionProviderType": "=encryption",
    "text:FilesystemType": "=filesystem",
    "text:VolumeType": "=volume",
    "text:RoutingTable": "=table",
    "text:DNSProtocol": "=dns",
    "text:ADLACPActive": "=lacpactive",
    "text:ADSelect": "=adselect",
    "text:ARPAllTargets": "=arptargets",
    "text:ARPValidate": "=arpvalidate",
    "text:BondMode": "=bondmode",
    "text:BondXmitHashPolicy": "=hashpolicy",
    "text:FailOverMAC": "=failovermac",
    "text:HardwareAddr": "=hardware",
    "text:LACPRate": "=lacprate",
    "text:LVMLogicalVolumeType": "=lvmtype",
    "text:PrimaryReselect": "=reselect",
    "text:RoutingRuleAction": "=ruleaction",
    "text:VLANProtocol": "=vlanmode",
    "text:WOLMode": "=wol",
    "uint8": "=uint8",
    "uint16": "=uint16",
}
SECTIONS: dict[str, Any] = {
    "own:PEMEncodedCertificateAndKey": {"crt": "own:Base64Bytes", "key": "own:Base64Bytes"},
    "own:PEMEncodedCertificate": {"crt": "own:Base64Bytes"},
    "own:PEMEncodedKey": {"key": "own:Base64Bytes"},
    "own:ClusterInlineManifests": ["list", {"name": "string", "contents": "string"}],
}
WIDTH = 116
IMPLIED = ("apiVersion", "kind")  # in every document that has a kind


def normal(shape: Any) -> Any:
    """As our table writes it: a form, {key: shape}, or [container, shape]."""
    if isinstance(shape, str):
        if shape in SECTIONS:
            return normal(SECTIONS[shape])
        if shape in FORMS:
            return FORMS[shape]
        if shape.startswith("uint"):
            return "+"
        return "#" if shape.startswith(("int", "float")) else ""
    if isinstance(shape, list):
        return ["[]" if shape[0] == "list" else "{}", normal(shape[1])]
    if set(shape) == {"*"}:
        return ["{}", "*"]
    return {key: normal(value) for key, value in shape.items()}


def known(judges: list[Judge], kinds: list[str]) -> dict[int, dict[str, Any]]:
    """By minor: every kind that it has, without what is implied."""
    told: dict[int, dict[str, Any]] = {}
    for judge in judges:
        shapes = {kind: normal(shape) for kind, shape in judge.keys(kinds).items() if shape is not None}
        for shape in shapes.values():
            if isinstance(shape, dict):
                for key in IMPLIED:
                    shape.pop(key, None)
        told[judge.minor] = shapes
    return told


def table(by_minor: dict[int, dict[str, Any]]) -> list[str]:
    return list(_lines(by_minor, sorted(by_minor), 0))


def _lines(by_minor: dict[int, dict[str, Any]], minors: list[int], depth: int) -> Iterator[str]:
    leaves: list[str] = []
    sections: list[tuple[str, dict[int, dict[str, Any]]]] = []
    for key in sorted({key for keys in by_minor.values() for key in keys}):
        for signature, holding in _variants(key, by_minor).items():
            word = f"{key}{signature}{_range(sorted(holding), minors)}"
            if any(isinstance(inner, dict) for inner in holding.values()):
                sections.append((f"{word}:", holding))
            else:
                leaves.append(word)
    yield from _wrapped(leaves, depth)
    for word, holding in sections:
        yield f"{'  ' * depth}{word}"
        yield from _lines(holding, sorted(holding), depth + 1)


def _variants(key: str, by_minor: dict[int, dict[str, Any]]) -> dict[str, dict[int, Any]]:
    """The forms a key had, and in which releases; a section's contents may differ and stay one variant."""
    variants: dict[str, dict[int, Any]] = {}
    for minor, keys in sorted(by_minor.items()):
        if key not in keys:
            continue
        shape, signature = keys[key], ""
        while isinstance(shape, list):
            signature += shape[0]
            shape = shape[1]
        if isinstance(shape, str):
            signature += shape
        variants.setdefault(signature, {})[minor] = shape
    return variants


def _range(held: list[int], minors: list[int]) -> str:
    if held == minors:
        return ""
    assert held == [minor for minor in minors if held[0] <= minor <= held[-1]], "a key that came back"
    if held[-1] == minors[-1]:
        return f"@{held[0]}+"
    return f"@-{held[-1]}" if held[0] == minors[0] else f"@{held[0]}-{held[-1]}"


def _wrapped(words: list[str], depth: int) -> Iterator[str]:
    margin = "  " * depth
    line = ""
    for word in words:
        if line and len(margin) + len(line) + 1 + len(word) > WIDTH:
            yield margin + line
            line = ""
        line = f"{line} {word}" if line else word
    if line:
        yield margin + line
