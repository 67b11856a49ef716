#!/usr/bin/env bash
# What `make test` leaves out because it takes hours: hostile bytes, guests in QEMU, hundreds of power cuts
# and kills, whole suites, the full validation. To be run before a release, and nightly.
#
# usage: scripts/test-long.sh [FUZZ_SECONDS]      for each target; 600 if not given
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

started=$SECONDS
scripts/test.sh
eval "$(scripts/guest.sh)"
if may_install; then
    has firefox-esr || has firefox || apt_install "the report in a second browser" firefox-esr
    if ! has mkfs.xfs || ! has mkfs.btrfs || ! has psql || ! has linux.uml; then
        apt_install "programs of the power-cut examples" xfsprogs btrfs-progs postgresql user-mode-linux qemu-system-common
    fi
fi
export DRIVEBAY_LONG=1 DRIVEBAY_POWER_CUTS=${DRIVEBAY_POWER_CUTS:-200} DRIVEBAY_KILLS=${DRIVEBAY_KILLS:-100}
export DRIVEBAY_CRASH_STATES=${DRIVEBAY_CRASH_STATES:-2500} # of five programs on each file system

step "Benchmarks, lint" cargo clippy --profile checks --locked -p drivebay-benches --benches -- -D warnings
step "Long Rust tests" cargo test --profile checks --locked --workspace
step "Long tests" .venv/bin/pytest -m long
step "Files changed at random" .venv/bin/pytest tests/test_fuzzed_files.py
step "Results changed at random" env DRIVEBAY_MUTATIONS=10000 .venv/bin/pytest tests/test_damaged_results.py tests/test_imports.py tests/test_judge.py
step "Reviews of real storage" .venv/bin/pytest tests/test_real_review.py
if has rustup && quietly .tools/miri.log rustup toolchain install nightly --profile minimal -c miri -c rust-src; then
    step "Miri" cargo +nightly miri test -p drivebay-plugin --locked # what libraries of policies are taken through
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    say "cargo-fuzz, into .tools"
    export PATH=$PWD/.tools/bin:$PATH
    cargo fuzz --version >/dev/null 2>&1 ||
        quietly .tools/cargo-fuzz.log cargo install cargo-fuzz --locked --quiet --root .tools
fi
step "Fuzzing" scripts/fuzz.sh "${1:-600}"
scripts/setup.sh # the fast core
step "Validation" .venv/bin/python scripts/validation.py
say "All long checks passed in $(seconds_since "$started") s"
