"""Small computers on a small network, made of the kernel's namespaces: where real meshes are tried. Needs root.

Nothing of it has a name outside: the namespaces live as long as the processes in them, and those die with us, even when
we are killed.
"""

from tools.lan.host import Host, LanFailed
from tools.lan.lan import Lan
from tools.lan.needs import missing

__all__ = ["Host", "Lan", "LanFailed", "missing"]
