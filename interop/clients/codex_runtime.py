"""The Rust crate codex-runtime, which looks for `codex` on the path."""
import os

from harness import HERE
from install import cargo

WHAT = "codex-runtime 0.6.2 (crate), stdio, codex from the path"


def install(cache):
    return cargo(cache, "codex_runtime_check", HERE / "programs" / "codex_runtime")


def check(place, program):
    place.run([program], PATH=f"{place.as_codex()}{os.pathsep}{os.environ['PATH']}")
