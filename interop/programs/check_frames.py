"""Checks recorded messages of the server against a schema that it has exported.

Called as `check_frames.py SCHEMA FRAMES`, with the directories of both. Prints a report as JSON and exits with 1 when the
schema does not allow a message. Needs `jsonschema`.
"""
import json
import pathlib
import sys

import jsonschema

# The responses of requests without params, whose names do not follow from those.
RESPONSES = {
    "account/gatewayOAuth/cancel": "GatewayOAuthCancelResponse",
    "account/gatewayOAuth/login": "GatewayOAuthLoginResponse",
    "account/gatewayOAuth/read": "GatewayOAuthReadResponse",
    "account/logout": "LogoutAccountResponse",
    "account/rateLimits/read": "GetAccountRateLimitsResponse",
    "account/workspaceMessages/read": "GetWorkspaceMessagesResponse",
    "config/mcpServer/reload": "McpServerRefreshResponse",
    "configRequirements/read": "ConfigRequirementsReadResponse",
    "config/batchWrite": "ConfigWriteResponse",
    "config/value/write": "ConfigWriteResponse",
}


class Schema:
    def __init__(self, directory):
        self.files = {path.stem: path for path in directory.rglob("*.json")}
        self.known = {}
        self.notifications = self.variants("ServerNotification")
        self.requests = self.variants("ServerRequest")
        self.responses = {method: self.response_name(variant) for method, variant in self.variants("ClientRequest").items()}
        self.responses.update(RESPONSES)

    def variants(self, name):
        """The alternatives of a union of messages, by method."""
        union = self.read(name)
        whole = {key: union[key] for key in ("definitions",) if key in union}
        return {variant["properties"]["method"]["enum"][0]: {**whole, **variant} for variant in union["oneOf"]}

    def read(self, name):
        return json.loads(self.files[name].read_text())

    @staticmethod
    def response_name(variant):
        """The name of a response follows from that of the params."""
        text = json.dumps(variant["properties"].get("params", {}))
        _, found, rest = text.partition("#/definitions/")
        name = rest.partition('"')[0]
        return name.removesuffix("Params") + "Response" if found and name.endswith("Params") else None

    def errors(self, key, schema, value):
        if key not in self.known:
            self.known[key] = jsonschema.Draft7Validator(schema() if callable(schema) else schema)
        for error in self.known[key].iter_errors(value):
            place = "".join(f"[{part!r}]" for part in error.absolute_path)
            yield f"{place}: {error.message[:300]}"


class Report:
    def __init__(self):
        self.checked, self.violations = 0, []

    def add(self, what, errors):
        self.checked += 1
        for error in errors:
            line = f"{what} {error}"
            if line not in self.violations:
                self.violations.append(line)


def check_connection(schema, lines, report):
    asked = {}
    for line in lines:
        record = json.loads(line)
        message = record["message"]
        method, number = message.get("method"), json.dumps(message.get("id"))
        if record["from"] == "client":
            if method and "id" in message:
                asked[number] = method
        elif method and "id" in message:
            known = schema.requests.get(method)
            report.add(method, schema.errors(("request", method), known, message) if known else ["is not in the schema"])
        elif method:
            known = schema.notifications.get(method)
            report.add(method, schema.errors(("news", method), known, message) if known else ["is not in the schema"])
        elif "result" in message and number in asked:
            check_response(schema, asked.pop(number), message["result"], report)


def check_response(schema, method, result, report):
    name = schema.responses.get(method)
    if name in schema.files:
        errors = schema.errors(("response", method), lambda: schema.read(name), result)
        report.add(f"the response to {method}", errors)
    else:
        report.add(f"the response to {method}", ["has no schema"])


def main():
    schema, frames = (pathlib.Path(argument) for argument in sys.argv[1:])
    schema, report = Schema(schema), Report()
    for path in sorted(frames.glob("*.jsonl")):
        check_connection(schema, path.read_text().splitlines(), report)
    print(json.dumps({"checked": report.checked, "violations": report.violations}))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
