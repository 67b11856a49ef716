#!/usr/bin/env bash
# Builds the files of a release into dist/: source distribution, wheels, software bills of materials, container image,
# checksums. What this machine cannot build is left out, and named at the end.
#
# usage: scripts/release.sh
#
# Both wheels are built from the source distribution, which proves that it builds. Zig is the C compiler and linker: it
# brings the C library of an older system, so the wheels run there, and on the other processor.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

glibc=manylinux_2_28 # Debian 10, RHEL 8: as the wheels of NumPy and PyArrow
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' pyproject.toml | head -n 1)
source=$PWD/target/release-source/drivebay-$version
left_out=()
started=$SECONDS

tools=$PWD/.tools/release
mkdir -p .tools target
if ! cmp -s requirements-release.lock "$tools/lock"; then
    say "Tools of the release"
    "${PYTHON:-python3}" -m venv --clear "$tools"
    quietly .tools/pip.log "$tools/bin/python" -m pip install -q --disable-pip-version-check \
        --require-hashes -r requirements-release.lock ||
        fail "the tools of the release could not be installed" "see above; is the package index reachable from here?"
    cp requirements-release.lock "$tools/lock"
fi
export PATH=$tools/bin:$PATH

rm -rf dist target/release-source
mkdir -p dist target/release-source
stamp_commit
step "Sources" maturin sdist -o dist
tar -xmzf "dist/drivebay-$version.tar.gz" -C target/release-source # -m: Cargo compares times

# wheel ARCHITECTURE
wheel() {
    local target=$1-unknown-linux-gnu
    if ! has rustup || ! quietly .tools/rustup.log rustup target add "$target"; then
        rustc --print target-libdir --target "$target" | xargs test -d || return 1
    fi
    (cd "$source" && maturin build --release --strip --locked --zig --target "$target" --compatibility "$glibc" \
        --target-dir "$OLDPWD/target" -o "$OLDPWD/dist")
}
for architecture in x86_64 aarch64; do
    step "Wheel $architecture" wheel "$architecture" || left_out+=("the wheel for $architecture")
done
