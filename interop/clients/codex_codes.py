"""The Rust crate codex-codes, with types made from the schema of codex 0.166."""
from harness import HERE
from install import cargo

WHAT = "codex-codes 0.166.4 (crate), stdio"
CHECKS_FRAMES = True
# Its types are those of 0.166, and it does not say so: the version also chooses the generation of the connection.
ANNOUNCED = "0.166.0"


def install(cache):
    return cargo(cache, "codex_codes", HERE / "programs" / "codex_codes")


def check(place, program):
    place.run([program])
