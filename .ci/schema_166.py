#!/usr/bin/env python3
"""Compares an exported JSON Schema of the 0.166 generation with the published one, type by type.

usage: codicil app-server generate-json-schema --generation 0.166 --experimental --out DIR
       schema_166.py DIR REFERENCE

Compared are the files, and for each named type its members, those that are always present, and its values. Descriptions,
titles, number formats and the order of members are not. DIFFERENT names the types that differ on purpose.
"""
import json
import pathlib
import sys

# The types whose members or values differ on purpose, with the reason.
DIFFERENT = {
    "AccountSessionsSwitchResponse": "one of its two forms is the type AccountSessionsListResponse",
    "ThreadItem": "a generated image has its `result` and never a `fileId`",
}

# The params that may be null have the name of those that may not.
NULLABLE = "Nullable"


def definitions(folder):
    """The named types of all files of a folder."""
    found = {}
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text())
        nested = dict(document.get("definitions", {}))
        nested.update(nested.pop("v2", {}) if "type" not in nested.get("v2", {"type": 0}) else {})
        if not path.name.endswith(".schemas.json"):
            nested.setdefault(path.stem, document)
        for name, schema in nested.items():
            found.setdefault(name.removeprefix(NULLABLE), schema)
    return found


def facts(schema, path=""):
    """What a schema says about members and values, as pairs of a path and a fact."""
    if not isinstance(schema, dict):
        return set()
    found = set()
    for name in schema.get("required", []):
        found.add((path, f"requires {name}"))
    for name, member in schema.get("properties", {}).items():
        found.add((path, f"has {name}"))
        found |= facts(member, f"{path}.{name}")
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    for value in values:
        found.add((path, f"is {json.dumps(value)}"))
    for word in ("allOf", "anyOf", "oneOf"):
        for variant in schema.get(word, []):
            found |= facts(variant, f"{path}{tag(variant)}")
    found |= facts(schema.get("items"), f"{path}[]")
    found |= facts(schema.get("additionalProperties"), f"{path}{{}}")
    return found


def tag(variant):
    """The name of a variant of a tagged type."""
    members = variant.get("properties", {})
    for name in ("type", "method", "mode"):
        values = members.get(name, {}).get("enum") or [members.get(name, {}).get("const")]
        if values[0]:
            return f"<{values[0]}>"
    required = variant.get("required", [])
    return f"<{required[0]}>" if len(members) == 1 and required == list(members) else ""


def main():
    exported, reference = (pathlib.Path(argument) for argument in sys.argv[1:3])
    problems = []
    names = [{str(path.relative_to(folder)).replace(NULLABLE, "") for path in folder.rglob("*.json")}
             for folder in (exported, reference)]
    problems += [f"{path}: only exported" for path in sorted(names[0] - names[1])]
    problems += [f"{path}: missing" for path in sorted(names[1] - names[0])]
    ours, theirs = definitions(exported), definitions(reference)
    problems += [f"type {name}: missing" for name in sorted(set(theirs) - set(ours) - set(DIFFERENT))]
    same = 0
    for name in sorted(set(ours) & set(theirs)):
        have, want = facts(ours[name]), facts(theirs[name])
        if have == want:
            same += 1
            if name in DIFFERENT:
                problems.append(f"{name}: is the same, remove it from DIFFERENT")
        elif name not in DIFFERENT:
            problems += [f"{name}{path}: {fact} is missing" for path, fact in sorted(want - have)]
            problems += [f"{name}{path}: {fact} is only exported" for path, fact in sorted(have - want)]
    print("\n".join(problems), end="\n" if problems else "")
    print(f"{same} of {len(theirs)} types are the same, {len(DIFFERENT)} differ on purpose, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
