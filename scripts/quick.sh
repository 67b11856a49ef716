#!/usr/bin/env bash
# The checks of `make quick`: format, lint and the tests that name what has changed, for the loop of a person.
#
# usage: scripts/quick.sh [COMMIT]
#
# Changed files are those that differ from COMMIT (HEAD unless named). Of a Rust crate the unit tests run, and the
# modules of its tests that name a changed module; of Python the test files that import a changed module. What is not
# run is left to `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

if ! [ -x .venv/bin/ruff ] || ! [ -e python/drivebay/_core.abi3.so ]; then
    scripts/setup.sh --dev
fi
mkdir -p .tools
lint_while_compiling
mapfile -t changed < <({
    git diff --name-only --diff-filter=d "${1:-HEAD}"
    git ls-files --others --exclude-standard
} | sort -u)

# tests_naming FOLDER PATTERN FILE...: test files in FOLDER that name a changed module; PATTERN has its name as %s.
tests_naming() {
    local folder=$1 pattern=$2 file name
    shift 2
    for file in "$@"; do
        name=$(basename "${file%.*}")
        case $name in mod | lib | __init__) name=$(basename "$(dirname "$file")") ;; esac
        # shellcheck disable=SC2059
        grep -lwE "$(printf "$pattern" "$name")" "$folder"/*.* 2>/dev/null || true
    done | sort -u
}

rust=() python=() crates=()
for file in "${changed[@]}"; do
    case $file in
        crates/*.rs) rust+=("$file") crates+=("$(cut -d / -f 2 <<<"$file")") ;;
        *.py) python+=("$file") ;;
    esac
done

if [ ${#rust[@]} -gt 0 ]; then
    step "Rust format" cargo fmt --all --check
    for crate in $(printf '%s\n' "${crates[@]}" | sort -u); do
        mapfile -t own < <(printf '%s\n' "${rust[@]}" | grep "^crates/$crate/src/" || true)
        mapfile -t modules < <({
            tests_naming "crates/$crate/tests" '%s' "${own[@]}"
            printf '%s\n' "${rust[@]}" | grep "^crates/$crate/tests/[a-z_]*\.rs" || true
        } | sed 's#.*/##; s#\.rs$#::#' | grep -vx 'all::' | sort -u)
        test=(cargo test --profile checks --locked -p "drivebay-$crate" --quiet)
        step "Tests of $crate" "${test[@]}" --lib
        grep -A 20 '^warning: ' ".tools/check-Tests-of-$crate.log" && fail "Rust lint failed" "see above" 1
        if [ -e "crates/$crate/tests/all.rs" ] && [ ${#modules[@]} -gt 0 ]; then
            step "${modules[*]%::}" "${test[@]}" --test all -- "${modules[@]}"
        fi
    done
fi
if [ ${#python[@]} -gt 0 ]; then
    step "Python format" .venv/bin/ruff format --check "${python[@]}"
    step "Python lint" .venv/bin/ruff check "${python[@]}"
    mapfile -t tests < <({
        tests_naming tests 'import .*\b%s\b|\.%s\b.* import' "${python[@]}"
        printf '%s\n' "${python[@]}" | grep '^tests/.*test_' || true
    } | grep '/test_' | sort -u)
    [ ${#tests[@]} = 0 ] || step "Python tests" .venv/bin/pytest -q -n 2 "${tests[@]}"
fi
.venv/bin/python scripts/count_lines.py
