"""The official TypeScript SDK 0.163.0."""
import typescript

WHAT = "TypeScript SDK 0.163.0 (npm @openai/codex-sdk), drives exec"


def install(cache):
    return typescript.install(cache, "0.163.0")


check = typescript.check
