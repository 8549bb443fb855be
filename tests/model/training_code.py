# SPDX-License-Identifier: Apache-2.0
"""The modules of models/train, for tests. Where torch is missing the test says so and ends as skipped."""

import importlib.util
import pathlib
import sys

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]

for module in ("numpy", "torch"):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: this Python has no {module} (Debian: python3-{module})")
        sys.exit(SKIPPED)
sys.path.insert(0, str(ROOT / "models" / "train"))

import torch  # noqa: E402

torch.set_num_threads(1)  # Tests run beside each other.


def small_config(**changes):
    """Of a model with everything that the real one has, but in little."""
    from model import Config

    sizes = {"width": 32, "layers": 3, "heads": 2, "context": 64, "dense_inner": 64, "expert_inner": 32,
             "shared_inner": 32, "experts": 8, "groups": 4, "top_groups": 2, "top_k": 2}
    return Config(**{**sizes, **changes})
