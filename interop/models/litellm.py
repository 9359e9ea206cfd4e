"""LiteLLM, a proxy in front of the models of other providers. Here the provider behind it is the scripted model."""
import json
import os
import secrets
import subprocess
import urllib.request

from harness import expect, until
from install import pip
from turns import AppServer

WHAT = "LiteLLM proxy 1.106.2 (PyPI litellm), a model server: Responses, Chat Completions, Messages"
OVERFLOW = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."

SCRIPT = f"""
[[reply]]
when = {{ user = "say something" }}
steps = [{{ say = "An answer through the proxy, äöü." }}, {{ usage = {{ input = 120, output = 30 }} }}]

[[reply]]
when = {{ user = "use a tool", step = 0 }}
steps = [{{ say = "Let me look." }}, {{ call = "exec_command", args = {{ cmd = "cat greeting.txt" }} }}]

[[reply]]
when = {{ user = "use a tool", step = 1 }}
steps = [{{ say = "The file says: {{output}}" }}]

[[reply]]
when = {{ user = "refuse" }}
steps = [{{ fail = {{ status = 400, message = "the parameter is unknown" }} }}]

[[reply]]
when = {{ user = "fail" }}
steps = [{{ fail = {{ status = 500, message = "The GPU is on fire" }} }}]

[[reply]]
when = {{ user = "be limited" }}
steps = [{{ fail = {{ status = 429, message = "Slow down, please" }} }}]

[[reply]]
when = {{ user = "too long" }}
steps = [{{ fail = {{ status = 400, message = "{OVERFLOW}" }} }}]
"""


def install(cache):
    return pip(cache, "litellm-1.106.2", "litellm[proxy]==1.106.2")


def check(place, python):
    key = f"sk-{secrets.token_hex(32)}"
    proxy = start_proxy(place, python, start_model(place), key)
    for wire_api in ("chat", "responses", "anthropic"):
        place.use_model(f"{proxy}/v1", wire_api, "scripted", provider='env_key = "PROXY_KEY"')
        check_key(place)
        server = AppServer(place, PROXY_KEY=key)
        try:
            check_dialect(server, wire_api)
        finally:
            server.close()
    place.use_model(f"{proxy}/v1", "chat", "scripted", provider='env_key = "PROXY_KEY"')
    printed = place.run([place.codicil, "exec", "--skip-git-repo-check", "say something"], PROXY_KEY=key)
    expect(printed.strip() == "An answer through the proxy, äöü.", f"exec printed {printed!r}")


def start_model(place):
    script = place.root / "litellm.toml"
    script.write_text(SCRIPT)
    model = place.start([place.codicil, "mock-model", "--script", str(script), "--log", str(place.model_log)],
                        stdout=subprocess.PIPE, text=True)
    return model.stdout.readline().strip()


def start_proxy(place, python, model, key):
    port = place.free_port()
    parameters = {"model": "openai/scripted", "api_base": model, "api_key": "none"}
    config = place.root / "litellm.json"
    # YAML is a superset of JSON.
    config.write_text(json.dumps({
        "model_list": [{"model_name": "scripted", "litellm_params": parameters}],
        "litellm_settings": {"num_retries": 0, "telemetry": False, "drop_params": True},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True}}))
    log = open(place.root / "litellm.log", "wb")
    proxy = place.start([str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)],
                        cwd=place.root, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key,
                             "HOME": str(place.user)})

    def ready():
        expect(proxy.poll() is None, f"LiteLLM ended: {(place.root / 'litellm.log').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    until("LiteLLM to listen", ready, 180)
    return f"http://127.0.0.1:{port}"


def check_dialect(server, wire_api):
    def failed(text, info):
        turn = server.turn(text)
        expect(turn.end["status"] == "failed", f"{wire_api}: {turn.end}")
        expect(turn.error["codexErrorInfo"] == info, f"{wire_api}: {turn.error}")
        return turn.error

    turn = server.turn("say something")
    expect(turn.text == "An answer through the proxy, äöü.", f"{wire_api}: {turn.text!r} {turn.error}")
    expect((turn.usage["inputTokens"], turn.usage["outputTokens"]) == (120, 30), f"{wire_api}: {turn.usage}")

    turn = server.turn("use a tool")
    expect(turn.end["status"] == "completed", f"{wire_api}: {turn.error}")
    expect([command["exitCode"] for command in turn.commands] == [0], f"{wire_api}: {turn.commands}")
    expect("The file says:" in turn.text and "Helo, world!" in turn.text, f"{wire_api}: {turn.text!r}")

    error = failed("refuse", "badRequest")
    expect("the parameter is unknown" in error["message"], f"{wire_api}: {error}")
    error = failed("fail", "internalServerError")
    expect("The GPU is on fire" in error["message"], f"{wire_api}: {error}")
    error = failed("be limited", {"responseTooManyFailedAttempts": {"httpStatusCode": 429}})
    expect("Slow down, please" in error["message"], f"{wire_api}: {error}")
    error = failed("too long", "contextWindowExceeded")
    expect("9001 tokens" in error["additionalDetails"], f"{wire_api}: {error}")


def check_key(place):
    server = AppServer(place, PROXY_KEY="sk-of-another-proxy")
    turn = server.turn("say something")
    # Without a database it knows only its own key, and says so.
    expect(turn.error and turn.error["message"].startswith("No connected db."), f"a wrong key: {turn.end}")
    expect("sk-of-another-proxy" not in json.dumps(turn.messages), "the key is in a message")
    server.close()
