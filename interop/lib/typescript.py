"""The official TypeScript SDK, which drives `codex exec`: the same program for every version of it."""
import pathlib

from harness import HERE, expect, need, until
from install import npm


def install(cache, version):
    need("node")
    return npm(cache, f"codex-sdk-{version}", f"@openai/codex-sdk@{version}")


def check(place, modules):
    place.run(["node", HERE / "programs" / "typescript_sdk.mjs"], MODULES=str(modules))
    requests = place.model_requests()
    images = [part for body in requests for item in body["input"] for part in item.get("content") or []
              if isinstance(part, dict) and part.get("type") == "input_image"]
    expect(images and images[0]["image_url"].startswith("data:image/png;base64,"), "the model got no image")
    schemas = [body["text"]["format"] for body in requests if (body.get("text") or {}).get("format")]
    expect(schemas and schemas[0]["schema"]["required"] == ["status", "count"], "the model got no schema")
    until("the command of the aborted turn to end", lambda: not sleeping(place), patience=20)


def sleeping(place):
    """Whether a command of the place still runs."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"sleep\0600" in (process / "cmdline").read_bytes() and (process / "cwd").resolve() == place.work:
                return True
        except OSError:
            continue
    return False
