# Short names for what is done often. `just` alone lists them; https://just.systems

[private]
default:
    @just --list --unsorted

# Shows the main job in a few seconds, without a network or a key
demo:
    cargo run --release -- demo

# Builds and tests one crate: `just test server`
test crate:
    cargo test -p codicil-{{ crate }}

# Runs every test of the workspace
test-all:
    cargo test --workspace

# Formats the code and reports lints
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# Runs the whole gate, as CI does
ci:
    .ci/run

# Checks licences, advisories and duplicate dependencies (needs cargo-deny)
deny:
    cargo deny check

# Builds the binary that is shipped
dist:
    cargo build --profile dist

# Builds the Debian package (needs cargo-deb)
deb:
    deploy/build-deb

# Compares servers side by side: `just bench --case turn --quick`
bench *arguments:
    cargo build --profile dist -p codicil-cli -p codicil-bench
    target/dist/codicil-bench --server codicil=target/dist/codicil {{ arguments }}

# Kills and suspends servers of a cluster and its database, for five minutes with 200 threads (`just chaos 7` repeats a run)
chaos seed="" seconds="300" threads="200":
    CODICIL_CHAOS_SECONDS={{ seconds }} CODICIL_CHAOS_THREADS={{ threads }} \
        CODICIL_CHAOS_SEED={{ if seed == "" { `date +%s` } else { seed } }} \
        cargo test -p codicil-cli --test cluster -- --nocapture nothing_is_lost_or_doubled

# Kills servers, and has two work on one home, many times more than the tests do by default: `just kills 100`
kills count="1000":
    CODICIL_INTERLEAVINGS={{ count }} cargo test -p codicil-server --test it shared_home::
    CODICIL_KILLS={{ count }} cargo test -p codicil-cli --test it -- cursor_kills:: durable_approvals:: killed:: \
        killed_during_tools:: leftover_servers:: leftovers:: reconnects:: repeated_changes:: repeated_requests:: two_servers::

# Works with one server for an hour and fails if its memory, descriptors, processes or disk grow: `just soak --minutes 5`
soak *arguments:
    cargo build --profile dist -p codicil-cli -p codicil-bench
    target/dist/codicil-bench soak --server codicil=target/dist/codicil {{ arguments }}

# Takes the pictures of the console in docs/images again; look at them afterwards
screenshots:
    cargo test -p codicil-cli --test console -- --ignored screenshots

# Builds and opens the API documentation
doc:
    cargo doc --workspace --no-deps --open

# Runs every fuzz target for ten minutes, or one, here for a minute: `just fuzz sse 60` (needs cargo-fuzz)
fuzz target="" seconds="600":
    fuzz/run "{{ seconds }}" {{ target }}
