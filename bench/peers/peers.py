# SPDX-License-Identifier: Apache-2.0
"""Loads the peers' own planners from the folder that setup.py fills, behind one call for all."""
import importlib.util
import inspect
import os
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Absent(Exception):
    """A peer cannot be run here; the message says why."""


def folder():
    """TRIMTAB_PEERS_DIR, or where setup.py puts the files by itself."""
    return pathlib.Path(os.environ.get("TRIMTAB_PEERS_DIR") or ROOT / "build" / "peers")


def torch_or_absent():
    try:
        import numpy  # noqa: F401
        import torch
    except ImportError as problem:
        raise Absent(f"{sys.executable} has no torch or numpy ({problem})") from problem
    torch.set_num_threads(1)
    return torch


def module_from(path):
    """Runs one file of a package by itself."""
    if not path.exists():
        raise Absent(f"{path} is not there: bench/peers/setup.py fetches it, TRIMTAB_PEERS_DIR says where it is")
    package = "trimtab_peer_" + path.parent.name
    if package not in sys.modules:
        sys.modules[package] = types.ModuleType(package)
        # All that vLLM's policy takes from its package is a base class without code.
        abstract = types.ModuleType(package + ".abstract")
        abstract.AbstractEplbPolicy = object
        sys.modules[package + ".abstract"] = abstract
    spec = importlib.util.spec_from_file_location(f"{package}.{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class WideTorch:
    """torch with 64-bit `int`: torch 1.13 cannot index by 32-bit tensors, as SGLang's vectorised planner does."""

    def __init__(self):
        import torch

        self.torch, self.int = torch, torch.int64

    def __getattr__(self, name):
        return getattr(self.torch, name)


def rebalance(module, weight, slots, groups, nodes, ranks):
    """DeepSeek's signature, or SGLang's, where the caller chooses the policy by DeepSeek's rule."""
    arguments = [weight, slots, groups, nodes, ranks]
    if "enable_hierarchical" in inspect.signature(module.rebalance_experts).parameters:
        arguments.append(groups % nodes == 0)
    return module.rebalance_experts(*arguments)


def load(name):
    """The planner `name` as plan(weight, slots, groups, nodes, ranks), weight a torch tensor [layers][experts].

    deepseek and sglang give physical_to_logical, logical_to_physical and logical_count; the others, in a tuple of
    one, physical_to_logical only.
    """
    torch_or_absent()
    if name == "deepseek":
        module = module_from(folder() / "deepseek" / "eplb.py")
        return lambda *arguments: rebalance(module, *arguments)
    if name == "sglang":
        module = module_from(folder() / "sglang" / "deepseek.py")
        return lambda *arguments: rebalance(module, *arguments)
    if name == "sglang_vec":
        module = module_from(folder() / "sglang" / "deepseek_vec.py")
        module.torch = WideTorch()
        return lambda weight, slots, groups, nodes, ranks: (
            module.rebalance_experts(weight.unsqueeze(0), slots, slots // ranks, groups, nodes, groups % nodes == 0)[0],
        )
    if name == "vllm":
        policy = module_from(folder() / "vllm" / "default.py").DefaultEplbPolicy
        return lambda *arguments: (policy.rebalance_experts(*arguments),)
    raise ValueError(name)
