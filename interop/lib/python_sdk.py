"""The official Python SDK: the same program for every version of it."""
from harness import HERE
from install import pip


def install(cache, version):
    return pip(cache, f"openai-codex-{version}", f"openai-codex=={version}")


def check(place, python):
    place.run([python, "-B", HERE / "programs" / "python_sdk.py"])
