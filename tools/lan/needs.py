"""What a machine must have for this, in words."""

import os
from pathlib import Path

from tools.toolbox.debian import NotInstalled, programs

PROGRAMS = ("ip", "nsenter", "unshare")
TUN = Path("/dev/net/tun")


def missing() -> str:
    """Empty: everything is there, now that what apt could bring was brought."""
    if os.geteuid() != 0:
        return "root, who may make network namespaces"
    if not TUN.exists():
        return f"{TUN}, through which tunnels are made"
    try:
        programs(PROGRAMS)
    except NotInstalled as error:
        return str(error)
    return ""
