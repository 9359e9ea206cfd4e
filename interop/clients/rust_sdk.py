"""The Rust SDK `codex-app-server-sdk`, over a websocket to a server that this check has started."""
from harness import HERE
from install import cargo

WHAT = "Rust SDK 0.5.1 (crate codex-app-server-sdk), websocket"


def install(cache):
    return cargo(cache, "rust_sdk", HERE / "programs" / "rust_sdk")


def check(place, program):
    place.run([program], ADDRESS=place.serve())
