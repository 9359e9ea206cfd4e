"""codex-sdk-python, an SDK by others that drives both `exec` and the app-server."""
from harness import HERE
from install import pip

WHAT = "codex-sdk-python 0.117.0 (PyPI), exec and stdio"


def install(cache):
    return pip(cache, "codex-sdk-python-0.117.0", "codex-sdk-python==0.117.0")


def check(place, python):
    place.run([python, "-B", HERE / "programs" / "sdk_python.py"])
