"""The official Python SDK 0.144.4."""
import python_sdk

WHAT = "Python SDK 0.144.4 (PyPI openai-codex), stdio"
CHECKS_FRAMES = True


def install(cache):
    return python_sdk.install(cache, "0.144.4")


check = python_sdk.check
