"""The official Python SDK 0.163.0."""
import python_sdk

WHAT = "Python SDK 0.163.0 (PyPI openai-codex), stdio"
CHECKS_FRAMES = True


def install(cache):
    return python_sdk.install(cache, "0.163.0")


check = python_sdk.check
