"""The official TypeScript SDK 0.118.0."""
import typescript

WHAT = "TypeScript SDK 0.118.0 (npm @openai/codex-sdk), drives exec"


def install(cache):
    return typescript.install(cache, "0.118.0")


check = typescript.check
