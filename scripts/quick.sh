#!/usr/bin/env bash
# The checks of `make quick`: format, lint and the tests that name what has changed, for the loop of a person.
#
# usage: scripts/quick.sh [COMMIT]
#
# Changed files are those that differ from COMMIT (HEAD unless named). Of a Rust crate the unit tests run, and the
# modules of its tests that name a changed module; of Python changed test files, and up to three that import a changed
# module: those that import least, and none of the longest. What is not run is left to `make test`.
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

# tests_naming FOLDER FILE...: test files in FOLDER that name a changed Rust module.
tests_naming() {
    local folder=$1 file name
    shift
    for file in "$@"; do
        name=$(basename "${file%.*}")
        case $name in mod | lib) name=$(basename "$(dirname "$file")") ;; esac
        grep -lw "$name" "$folder"/*.* 2>/dev/null || true
    done
}

# tests_importing FILE...: test files that import a changed Python module.
tests_importing() {
    local file name
    for file in "$@"; do
        name=${file#python/} name=${name%.py} name=${name%/__init__} name=${name//\//.}
        grep -lE "from ${name%.*} import .*\b${name##*.}\b|(from|import) $name( |\$)" tests/{,interop/}test_*.py || true
    done
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
            tests_naming "crates/$crate/tests" "${own[@]}"
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
    longest=$(sed -n '/^LONGEST_FIRST/,/^)/s/.*"\(.*\)".*/\/\1/p' tests/conftest.py)
    mapfile -t tests < <({
        tests_importing "${python[@]}" | grep -vF "$longest" | sort -u |
            xargs -r grep -cHE '^(from|import) drivebay' | sort -t : -k 2n | head -n 3 | cut -d : -f 1 || true
        printf '%s\n' "${python[@]}" | grep '^tests/.*test_' || true
    } | sort -u)
    [ ${#tests[@]} = 0 ] || step "Python tests" .venv/bin/pytest -q -n 2 "${tests[@]}"
fi
.venv/bin/python scripts/count_lines.py
