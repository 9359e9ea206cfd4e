"""The Vercel AI SDK with the provider ai-sdk-provider-codex-app-server."""
from harness import HERE, need
from install import npm

WHAT = "ai-sdk-provider-codex-app-server 1.1.7 (npm), Vercel AI SDK 6"


def install(cache):
    need("node")
    return npm(cache, "ai-sdk-provider-codex-app-server-1.1.7", "ai-sdk-provider-codex-app-server@1.1.7", "ai@^6")


def check(place, modules):
    place.run(["node", HERE / "programs" / "ai_sdk_app_server.mjs"], MODULES=str(modules))
