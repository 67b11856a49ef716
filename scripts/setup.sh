#!/usr/bin/env bash
# Makes .venv with the locked Python packages and the Rust core in it: then .venv/bin/drivebay runs.
#
# usage: scripts/setup.sh [--dev]
#
# --dev is for the checks: it adds what tests and linters need, and builds the core as `cargo test` does,
# with assertions. Setting up without it brings the fast core back (kept in target/, not built again).
#
# Nothing is done twice: each step leaves a stamp of what it was made from in .venv, and is skipped
# while that stays the same. Nothing is installed outside this folder, but for what apt has of Python's
# venv, a C compiler and Rust, where they are missing and we are root.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

lock=requirements.lock profile=release
[ "${1:-}" = "--dev" ] && lock=requirements-dev.lock profile=checks
mkdir -p .tools
exec 9>.tools/lock
flock -n 9 || { say "Waiting for another setup in this folder"; flock 9; }
[ -e .venv ] || say "Nothing is set up yet: about three minutes on two cores, downloads not counted"

# --- what the machine must have -------------------------------------------------------------------

python_needed=3.11
rust_needed=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c "import sys; sys.exit(sys.version_info < (${python_needed/./, }))" 2>/dev/null; then
            # The interpreter itself, also when asked from inside a virtual environment.
            "$candidate" -c 'import sys; print(sys._base_executable)'
            return
        fi
    done
    return 1
}

rust_version() { cargo --version >/dev/null 2>&1 && rustc --version 2>/dev/null | cut -d ' ' -f 2 | cut -d - -f 1; }
new_enough_rust() { local found; found=$(rust_version) && at_least "$found" "$rust_needed"; }

# install_rust: from apt where that is new enough; else by the rustup that apt has; else Debian 12's
# second set of packages, which has no clippy.
install_rust() {
    [ -n "${APT_UPDATED:-}" ] || apt update || true
    export APT_UPDATED=1
    if has rustup; then
        say "Rust $rust_needed or newer, by rustup"
    elif at_least "$(apt_version rustc)" "$rust_needed"; then
        apt_install "Rust" cargo rustc rust-clippy rustfmt
        return
    elif [ -n "$(apt_version rustup)" ]; then
        apt_install "Rust" rustup
    elif at_least "$(apt_version rustc-web)" "$rust_needed"; then
        apt_install "Rust" cargo-web rustc-web rustfmt-web
        return
    else
        return 1
    fi
    quietly .tools/rustup.log rustup toolchain install stable --profile minimal -c clippy -c rustfmt &&
        rustup default stable >>.tools/rustup.log 2>&1
}

if may_install; then
    missing=()
    find_python >/dev/null || missing+=(python3)
    has cc && [ -e /usr/include/stdlib.h ] || missing+=(gcc libc6-dev)
    python=$(find_python) && "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    [ ${#missing[@]} = 0 ] || apt_install "Python and a C compiler" "${missing[@]}"
    new_enough_rust || install_rust || true
    hash -r
fi
python=$(find_python) || fail "Python $python_needed or newer is missing" \
    "sudo apt-get install python3 python3-venv   (or name one: make setup PYTHON=/path/to/python3)"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "Python's venv is missing" "sudo apt-get install python3-venv"
has cc || fail "a C compiler is missing (Rust links with it)" "sudo apt-get install gcc libc6-dev"
new_enough_rust || {
    found=$(rust_version) || found=none
    hint="install rustup (rustup.rs); on Debian 12 also: sudo apt-get install cargo-web rustc-web rustfmt-web"
    has rustup && hint="rustup update stable"
    fail "Rust $rust_needed or newer is needed; found: $found" "$hint"
}

# --- the environment ------------------------------------------------------------------------------

# stamped NAME DIGEST: is the step NAME already made from DIGEST?
stamped() { [ "$(cat ".venv/.stamp-$1" 2>/dev/null)" = "$2" ]; }
stamp() { printf '%s\n' "$2" >".venv/.stamp-$1"; }
digest() { sha256sum | cut -d ' ' -f 1; }

export UV_PYTHON_DOWNLOADS=never
uv=.tools/bin/uv
tools_digest=$(cat requirements-tools.lock <(echo "$PWD") | digest)
if [ "$(cat .tools/stamp 2>/dev/null)" != "$tools_digest" ] || ! "$uv" --version >/dev/null 2>&1; then
    say "The installer (uv)"
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
    # The list of fonts, once: the first picture would wait for it and say so.
    .venv/bin/python -c 'import matplotlib.font_manager' >/dev/null 2>&1 || true
    say "Python packages: done in $(seconds_since "$start") s"
fi

# --- the Rust core, and the package itself --------------------------------------------------------

[ "$profile" = checks ] && lint_while_compiling
core=python/drivebay/_core.abi3.so
core_digest=$({
    echo "$profile"
    rustc --version
    find Cargo.toml Cargo.lock pyproject.toml crates -type f \
        \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock \) -print0 | sort -z | xargs -0 sha256sum
} | digest)
kept=target/core-$profile.so
if ! stamped core "$core_digest" || ! [ -x .venv/bin/drivebay ] || ! [ -e $core ]; then
    if stamped "core-$profile" "$core_digest" && [ -e "$kept" ] && [ -x .venv/bin/drivebay ]; then
        # By another name first: a running drivebay keeps the file that it has.
        cp "$kept" $core.new && mv $core.new $core
    else
        start=$SECONDS
        say "The Rust core, profile $profile (the first takes a minute or two)"
        quietly .tools/core.log env VIRTUAL_ENV="$PWD/.venv" PATH="$PWD/.tools/bin:$PATH" \
            .venv/bin/maturin develop --profile "$profile" --locked --uv ||
            fail "the Rust core could not be built" "see above; then: make setup"
        cp $core "$kept"
        stamp "core-$profile" "$core_digest"
        say "The Rust core: done in $(seconds_since "$start") s"
    fi
    stamp core "$core_digest"
fi
say "Ready: .venv/bin/drivebay --help"
