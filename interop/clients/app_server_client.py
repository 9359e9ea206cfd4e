"""codex-app-server-client, a client by others for Python."""
from harness import HERE
from install import pip

WHAT = "codex-app-server-client 0.1.0 (PyPI), stdio"


def install(cache):
    return pip(cache, "codex-app-server-client-0.1.0", "codex-app-server-client==0.1.0")


def check(place, python):
    place.run([python, "-B", HERE / "programs" / "app_server_client.py"])
