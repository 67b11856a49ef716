#!/usr/bin/env bash
# The checks of `make test`: everything that finds a mistake in a change, in about ten minutes on two cores.
# What takes longer is in test-long.sh.
#
# Two lanes run side by side, Python's tests and all else; each stops at its first failure. Nothing here depends
# on how fast the machine is, nor on what else it does.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

started=$SECONDS
mkdir -p .tools

# Programs of the system that tests call; they are installed while the core is built.
system_packages() {
    local missing=() pair
    for pair in fio:fio chromium:chromium nbdinfo:libnbd-bin nbdfuse:libnbd-bin qemu-io:qemu-utils \
        fusermount3:fuse3 losetup:mount mkfs.ext4:e2fsprogs shellcheck:shellcheck; do
        has "${pair%%:*}" || missing+=("${pair##*:}")
    done
    [ ${#missing[@]} = 0 ] && return
    if may_install; then
        apt_install "programs that tests call" "${missing[@]}" fonts-dejavu-core
    else
        say "Without ${missing[*]} some tests are skipped (apt-get install ${missing[*]})"
    fi
}
system_packages &
packages=$!
scripts/setup.sh --dev
wait $packages
lint_while_compiling # as setup.sh does

rust() {
    cargo fmt --version >/dev/null 2>&1 || fail "cargo fmt is missing" "rustup component add rustfmt"
    step "Rust format" cargo fmt --all --check
    # With the border, though it has no Rust tests: the features that it asks of others' crates are then those that
    # the core was built with, and nothing is compiled again.
    local workspace=(--profile checks --locked --workspace --exclude drivebay-benches)
    step "Rust build" cargo test "${workspace[@]}" --tests --examples --no-run
    if [ -z "${RUSTC_WORKSPACE_WRAPPER:-}" ]; then
        say "Rust lint: skipped, as clippy is missing (rustup component add clippy)"
    elif grep -h -A 20 '^warning: ' .tools/check-Types-of-the-core.log .tools/check-Rust-build.log; then
        fail "Rust lint failed" "to repeat only this: cargo clippy ${workspace[*]} --all-targets" 1
    fi
    step "Rust tests" cargo test "${workspace[@]}" --tests
}

scripts() {
    if has shellcheck; then
        step "Shell lint" shellcheck --external-sources --source-path=SCRIPTDIR scripts/*.sh .ci/run
    else
        say "Shell lint: skipped, as shellcheck is missing (apt-get install shellcheck)"
    fi
}

documents() {
    step "Python types" .venv/bin/mypy --show-traceback
    step "Man page" .venv/bin/python scripts/manpage.py --check
    step "Docs site" env NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
}

python() {
    step "Python format" .venv/bin/ruff format --check .
    step "Python lint" .venv/bin/ruff check .
    step "Python tests" .venv/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder
}

step "Types of the core" .venv/bin/python scripts/stub.py --check --profile checks

# A process each, so that `set -e` ends a lane; $() or `if` would switch it off.
(
    scripts
    rust
    documents
) &
lane=$!
code=0
(python) & wait $! || code=$?
wait $lane || code=$?
[ $code = 0 ] || exit $code
say "All checks passed in $(seconds_since "$started") s"
