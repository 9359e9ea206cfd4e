"""The Vercel AI SDK with the provider ai-sdk-provider-codex-cli."""
from harness import HERE, need
from install import npm

WHAT = "ai-sdk-provider-codex-cli 2.2.1 (npm), Vercel AI SDK 7"


def install(cache):
    need("node")
    return npm(cache, "ai-sdk-provider-codex-cli-2.2.1", "ai-sdk-provider-codex-cli@2.2.1", "ai@^7")


def check(place, modules):
    place.run(["node", HERE / "programs" / "ai_sdk_cli.mjs"], MODULES=str(modules))
