"""Puts clients of the registries into the cache. What is there in the wanted version is left alone."""
import json
import os
import subprocess
import sys

from harness import Failed, Skipped, need


def npm(cache, name, *packages):
    """Packages from npm in a directory of their own; gives that directory."""
    need("npm")
    place = cache / name
    return _once(place, list(packages), lambda: _npm(place, packages))


def pip(cache, name, *packages):
    """Packages from PyPI in a virtual environment of their own; gives its interpreter."""
    place = cache / name

    def install():
        _run([sys.executable, "-m", "venv", "--clear", str(place)])
        _run([str(place / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *packages])

    _once(place, list(packages), install)
    return place / "bin" / "python"


def cargo(cache, name, source):
    """A program of the tree that uses a crate, built in the cache; gives the binary."""
    need("cargo")
    place = cache / name
    place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(cache / "cargo-target"), "CARGO_INCREMENTAL": "0"}
    for path in source.rglob("*"):
        if path.is_file():
            to = place / path.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            # Written only when it differs, so that cargo does not build what it has built.
            if not to.exists() or to.read_bytes() != path.read_bytes():
                to.write_bytes(path.read_bytes())
    manifest = ["--manifest-path", str(place / "Cargo.toml")]
    _run(["cargo", "fetch", "-q", *manifest], env=environment)
    # What does not build has failed: our program and the crate do not fit.
    built = subprocess.run(["cargo", "build", "-q", *manifest], env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        raise Failed(built.stderr)
    return cache / "cargo-target" / "debug" / name


def _npm(place, packages):
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], cwd=place)


def _once(place, wanted, install):
    mark = place / "installed.json"
    if mark.exists() and json.loads(mark.read_text()) == wanted:
        return place
    install()
    mark.write_text(json.dumps(wanted))
    return place


def _run(command, patience=600, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, **options)
    except subprocess.TimeoutExpired:
        raise Skipped(f"cannot be installed: no end of `{' '.join(command[:3])}` in {patience} s") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Skipped(f"cannot be installed: {''.join(last)}")
