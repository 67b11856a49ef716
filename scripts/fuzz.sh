#!/usr/bin/env bash
# Feeds each parser, and a stateful session of each protocol, with what libFuzzer thinks of.
#
# usage: scripts/fuzz.sh [SECONDS [TARGET...]]      60 s each, all targets, if not given
#
# Two lanes side by side, so all targets take half their number of minutes. Built without a sanitizer:
# the code fuzzed is safe Rust, what is looked for are panics, overflows, hangs and memory without
# bound; so a stable compiler will do. What is found stays in fuzz/artifacts, what was learnt in
# fuzz/corpus: the next run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "$seconds is no number of seconds" "scripts/fuzz.sh 60 nbd_session" 2
shift $(($# > 0))
# The slowest first: nothing waits for them at the end.
all=(nvme_session nbd_session ahci_machine trace profile nvme_pdu nbd)
targets=("${@:-${all[@]}}")
for target in "${targets[@]}"; do
    [ -f "fuzz/fuzz_targets/$target.rs" ] || fail "no fuzz target $target" "one of ${all[*]}" 2
done

cargo fuzz --version >/dev/null 2>&1 ||
    fail "cargo-fuzz is missing" "cargo install cargo-fuzz --locked"
command -v c++ >/dev/null || fail "a C++ compiler is missing (libFuzzer is C++)" "sudo apt-get install g++"

mkdir -p .tools
triple=$(rustc -vV | sed -n 's/^host: //p')
start=$SECONDS
quietly .tools/fuzz-build.log cargo fuzz build --sanitizer none --target "$triple" ||
    fail "the fuzz targets could not be built" "cargo fuzz build --sanitizer none"
say "Fuzz targets built in $(seconds_since "$start") s"

# lane TARGET...: one after the other; ends at the first that finds something.
lane() {
    local target
    for target in "$@"; do
        mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
        if ! "fuzz/target/$triple/release/$target" "fuzz/corpus/$target" \
            -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$seconds" \
            -timeout=20 -print_final_stats=1 >".tools/fuzz-$target.log" 2>&1; then
            tail -n 30 ".tools/fuzz-$target.log" >&2
            printf 'error: fuzzing %s found something\nhint: fuzz/target/%s/release/%s FILE, with the newest FILE of fuzz/artifacts/%s\n' \
                "$target" "$triple" "$target" "$target" >&2
            return 1
        fi
        say "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' ".tools/fuzz-$target.log") inputs, none it could not take"
    done
}

# The first, third, ... on one core, the others on another.
odd=() even=()
for i in "${!targets[@]}"; do
    if ((i % 2 == 0)); then odd+=("${targets[i]}"); else even+=("${targets[i]}"); fi
done
lane "${odd[@]}" &
first=$!
trap 'kill "$first" 2>/dev/null || true' EXIT
lane "${even[@]}"
wait "$first"
trap - EXIT
