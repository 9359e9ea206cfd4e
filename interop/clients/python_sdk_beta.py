"""The official Python SDK 0.1.0b3."""
import python_sdk

WHAT = "Python SDK 0.1.0b3 (PyPI openai-codex), stdio"


def install(cache):
    return python_sdk.install(cache, "0.1.0b3")


check = python_sdk.check
