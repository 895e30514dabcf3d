"""Run in gpuhunt's own environment: tells, as JSON, what it knows of GPUs and how it reads what vendors report."""

import json
import sys

from gpuhunt._internal.constraints import KNOWN_AMD_GPUS, KNOWN_NVIDIA_GPUS, correct_gpu_memory_gib
from gpuhunt.providers.lambdalabs import _parse_description
from gpuhunt.providers.vastai import get_dstack_gpu_name, get_vastai_gpu_names

SHARES = range(80, 121)  # per cent of the known memory


def known(gpu) -> dict:
    return {
        "name": gpu.name,
        "memory": gpu.memory,
        "vendor": gpu.vendor.value,
        "capability": getattr(gpu, "compute_capability", None),
        "vast": get_vastai_gpu_names(gpu.name),
        "corrected": {share: correct_gpu_memory_gib(gpu.name, gpu.memory * 1024 * share / 100) for share in SHARES},
    }


asked = json.load(sys.stdin)
told = {
    "known": [known(gpu) for gpu in (*KNOWN_NVIDIA_GPUS, *KNOWN_AMD_GPUS)],
    "vast": {name: get_dstack_gpu_name(name) for name in asked["vast"]},
    "lambda": {name: _parse_description(f"1x {name}") for name in asked["lambda"]},
}
json.dump(told, sys.stdout)
