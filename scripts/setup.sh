#!/usr/bin/env bash
# Makes .venv with the locked Python packages and the Rust core in it: then .venv/bin/drivebay runs.
#
# usage: scripts/setup.sh [--dev]      --dev adds what the tests and linters need
#
# Nothing is done twice: each step leaves a stamp of what it was made from in .venv, and is skipped
# while that stays the same. Nothing is installed outside this folder, but for python3-venv through
# apt where it is missing and we are root.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

lock=requirements.lock
[ "${1:-}" = "--dev" ] && lock=requirements-dev.lock
mkdir -p .tools
exec 9>.tools/lock
flock -n 9 || { say "Waiting for another setup in this folder"; flock 9; }

# --- what the machine must have -------------------------------------------------------------------

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # The interpreter itself, also when asked from inside a virtual environment.
            "$candidate" -c 'import sys; print(sys._base_executable)'
            return
        fi
    done
    return 1
}

python=$(find_python) || fail "Python 3.11 or newer is missing" \
    "sudo apt-get install python3 python3-venv   (or name one: make setup PYTHON=/path/to/python3)"

command -v cc >/dev/null || fail "a C compiler is missing (Rust links with it)" \
    "sudo apt-get install gcc libc6-dev"

rust_needed=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
rust_found=$(rustc --version 2>/dev/null | cut -d ' ' -f 2)
rust_hint="install Rust with rustup (rustup.rs); on Debian 12 also: sudo apt-get install cargo-web"
command -v rustup >/dev/null && rust_hint="rustup update stable"
if [ -z "$rust_found" ] || ! command -v cargo >/dev/null; then
    fail "cargo or rustc is missing; Rust $rust_needed or newer is needed" "$rust_hint"
fi
if [ "$(printf '%s\n' "$rust_needed" "${rust_found%%-*}" | sort -V | head -n 1)" != "$rust_needed" ]; then
    fail "Rust $rust_found is too old; $rust_needed or newer is needed" "$rust_hint"
fi

# --- the environment ------------------------------------------------------------------------------

# stamped NAME DIGEST: is the step NAME already made from DIGEST?
stamped() { [ "$(cat ".venv/.stamp-$1" 2>/dev/null)" = "$2" ]; }
stamp() { printf '%s\n' "$2" >".venv/.stamp-$1"; }
digest() { sha256sum | cut -d ' ' -f 1; }

export UV_PYTHON_DOWNLOADS=never
uv=.tools/bin/uv
tools_digest=$(cat requirements-tools.lock <(echo "$PWD") | digest)
if [ "$(cat .tools/stamp 2>/dev/null)" != "$tools_digest" ]; then
    say "The installer (uv)"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install "Python's venv" python3-venv
    "$python" -m venv --clear .tools/venv
    quietly .tools/pip.log .tools/venv/bin/python -m pip install -q --disable-pip-version-check \
        --require-hashes -r requirements-tools.lock ||
        fail "uv could not be installed" "see above; is the package index reachable from here?"
    mkdir -p .tools/bin
    ln -sf ../venv/bin/uv .tools/bin/uv
    printf '%s\n' "$tools_digest" >.tools/stamp
fi

# Scripts in .venv name their folder, so a moved checkout needs a new one. (Another Python for a
# standing .venv: make clean first.)
if ! stamped venv "$PWD" || ! .venv/bin/python -c '' 2>/dev/null; then
    "$uv" venv -q --clear --python "$python" .venv
    stamp venv "$PWD"
fi

packages_digest=$(digest <"$lock")
if ! stamped packages-"$lock" "$packages_digest"; then
    start=$SECONDS
    say "Python packages from $lock"
    quietly .tools/packages.log "$uv" pip install --python .venv/bin/python --require-hashes -r "$lock" ||
        fail "the Python packages could not be installed" "see above; is the package index reachable from here?"
    stamp packages-"$lock" "$packages_digest"
    say "Python packages: done in $(seconds_since "$start") s"
fi

# --- the Rust core, and the package itself --------------------------------------------------------

core_digest=$({
    rustc --version
    find Cargo.toml Cargo.lock pyproject.toml crates -type f \
        \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock \) -print0 | sort -z | xargs -0 sha256sum
} | digest)
if ! stamped core "$core_digest" || ! [ -x .venv/bin/drivebay ] ||
    ! [ -e python/drivebay/_core.abi3.so ]; then
    start=$SECONDS
    say "The Rust core, release build (the first takes a minute or two)"
    export VIRTUAL_ENV=$PWD/.venv PATH=$PWD/.tools/bin:$PATH
    quietly .tools/core.log .venv/bin/maturin develop --release --locked --uv ||
        fail "the Rust core could not be built" "see above; then: make setup"
    stamp core "$core_digest"
    say "The Rust core: done in $(seconds_since "$start") s"
fi
say "Ready: .venv/bin/drivebay --help"
