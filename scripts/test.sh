#!/usr/bin/env bash
# Every check of the project, one after the other; stops at the first that fails.
# `make test` and CI run this and nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

started=$SECONDS
summary=()

# step NAME COMMAND...: runs one check, with its time for the summary.
step() {
    local name=$1 start=$SECONDS
    shift
    say "$name: $*"
    if ! "$@"; then
        printf 'error: %s failed\nhint: to repeat only this: %s\n' "$name" "$*" >&2
        exit 1
    fi
    summary+=("$(printf '%-14s %4d s' "$name" "$(seconds_since "$start")")")
}

scripts/setup.sh --dev

# --- what only the tests need ---------------------------------------------------------------------
command -v fio >/dev/null || apt_install "fio (tests of real files and devices)" fio
command -v chromium >/dev/null || apt_install "Chromium (tests of the report)" chromium fonts-dejavu-core
missing=()
for package in nbdinfo:libnbd-bin nbdfuse:libnbd-bin qemu-io:qemu-utils fusermount3:fuse3; do
    command -v "${package%%:*}" >/dev/null || missing+=("${package##*:}")
done
# Without them, as where apt is not ours to use, these tests say that they were skipped.
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt_install "NBD clients (tests of drivebay serve)" "${missing[@]}"
fi
for tool in fmt clippy; do
    cargo "$tool" --version >/dev/null 2>&1 ||
        fail "cargo $tool is missing" "rustup component add rustfmt clippy"
done

eval "$(scripts/guest.sh)"

# --- the checks, the quick ones first -------------------------------------------------------------
step "Python format" .venv/bin/ruff format --check .
step "Python lint" .venv/bin/ruff check .
step "Rust format" cargo fmt --all --check
step "Python types" .venv/bin/mypy
step "Man page" .venv/bin/python scripts/manpage.py --check
step "Docs site" env NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
step "Rust lint" cargo clippy --locked --workspace --all-targets -- -D warnings
step "Rust tests" cargo test --locked --workspace
step "Python tests" .venv/bin/pytest

# A minute for each parser and protocol. cargo-fuzz is installed only for CI; elsewhere it is optional.
if [ "${CI:-}" = true ] && ! cargo fuzz --version >/dev/null 2>&1; then
    say "cargo-fuzz"
    export PATH=$PWD/.tools/bin:$PATH
    quietly .tools/cargo-fuzz.log cargo install cargo-fuzz --locked --quiet --root .tools || true
fi
if cargo fuzz --version >/dev/null 2>&1 && command -v c++ >/dev/null; then
    step "Fuzzing" scripts/fuzz.sh 60
else
    say "Fuzzing: skipped, as cargo-fuzz or a C++ compiler is missing (cargo install cargo-fuzz --locked)"
fi

say "All checks passed in $(seconds_since "$started") s"
printf '    %s\n' "${summary[@]}"
