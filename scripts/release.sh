#!/usr/bin/env bash
# Builds the files of a release into dist/: source distribution, wheels, software bills of materials (CycloneDX),
# container image, checksums. What this machine cannot build is left out, and named at the end.
#
# usage: scripts/release.sh [--complete]      --complete: fail if anything is left out
#        scripts/release.sh --wheel           only a wheel for this machine and the sources, into target/wheels
#
# Both wheels are built from the source distribution, which proves that it builds. Zig is the C compiler and linker: it
# brings an older system's C library, so the wheels run there, and builds for the other processor.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

glibc=manylinux_2_28 # Debian 10, RHEL 8: as the wheels of NumPy and PyArrow
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' pyproject.toml | head -n 1)
sources=target/release-source
left_out=()
started=$SECONDS

tools=$PWD/.tools/release
mkdir -p .tools
has cargo || fail "Rust is missing" "make setup"
if ! cmp -s requirements-release.lock "$tools/lock"; then
    say "Tools of the release"
    "${PYTHON:-python3}" -m venv --clear "$tools"
    quietly .tools/pip.log "$tools/bin/python" -m pip install -q --disable-pip-version-check \
        --require-hashes -r requirements-release.lock ||
        fail "the tools of the release could not be installed" "see above; is the package index reachable from here?"
    cp requirements-release.lock "$tools/lock"
fi
export PATH=$tools/bin:$PATH
stamp_commit

if [ "${1:-}" = --wheel ]; then
    export RUSTFLAGS
    RUSTFLAGS=$(scripts/optimised_core.sh --flags)
    quietly .tools/core.log maturin build --release --strip --locked --sdist -i python
    ls target/wheels/*
    exit 0
fi

rm -rf dist "$sources"
mkdir -p dist "$sources"
step "Sources" maturin sdist -o dist
tar -xmzf "dist/drivebay-$version.tar.gz" -C "$sources" # -m: Cargo compiles what is newer than its output

# wheel ARCHITECTURE
wheel() {
    local target=$1-unknown-linux-gnu
    { has rustup && rustup target add "$target"; } || [ -d "$(rustc --print target-libdir --target "$target")" ] || return
    (cd "$sources/drivebay-$version" && maturin build --release --strip --locked --zig --target "$target" \
        --compatibility "$glibc" --target-dir "$OLDPWD/target" -o "$OLDPWD/dist")
}
for architecture in x86_64 aarch64; do
    step "Wheel $architecture" wheel "$architecture" || left_out+=("wheel for $architecture")
done

# The crates' bill of materials is in each wheel, where tools look for it; this is a copy.
step "Materials" cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
    --output-file "dist/drivebay-$version-python.cdx.json"
for built in dist/*.whl; do
    [ ! -e "$built" ] || python - "$built" >"dist/drivebay-$version-rust.cdx.json" <<'END'
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
sys.stdout.buffer.write(next(archive.read(name) for name in archive.namelist() if "/sboms/" in name))
END
done

built=dist/drivebay-$version-cp311-abi3-${glibc}_$(uname -m).whl
if ! has buildah || ! [ -e "$built" ]; then
    left_out+=("container image (apt-get install buildah)")
else
    step "Container" buildah build --layers -t "drivebay:$version" --build-arg "WHEEL=$built" . &&
        step "Image" buildah push "drivebay:$version" "oci-archive:dist/drivebay-$version-image.tar:drivebay:$version" ||
        left_out+=("container image")
fi

(cd dist && sums=$(sha256sum -- *) && printf '%s\n' "$sums" >SHA256SUMS)
ls -l dist
[ ${#left_out[@]} = 0 ] || printf '==> Left out: %s\n' "${left_out[@]}"
say "The release is in dist/, built in $(seconds_since "$started") s"
[ "${1:-}" != --complete ] || [ ${#left_out[@]} = 0 ]
