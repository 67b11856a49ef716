#!/usr/bin/env bash
# capi.sh PREFIX [PROFILE]: builds the C library of the virtual drive and installs it: header, shared and static
# library, pkg-config file. PROFILE is Cargo's, release if not given.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

[ $# -ge 1 ] || fail "capi.sh needs a folder to install to" "scripts/capi.sh ~/.local" 2
prefix=$1
profile=${2:-release}
packages=(-p drivebay-capi)
# With the core, whose features of others' crates are then used, so that the tests compile nothing twice.
[ "$profile" = checks ] && packages+=(-p drivebay-py)
cargo build --quiet --locked --profile "$profile" "${packages[@]}"
built=${CARGO_TARGET_DIR:-target}/$profile
install -D -m 644 -t "$prefix/include" crates/capi/include/drivebay.h
install -D -t "$prefix/lib" "$built/libdrivebay.so"
install -D -m 644 -t "$prefix/lib" "$built/libdrivebay.a"
install -D -m 644 -t "$prefix/lib/pkgconfig" crates/capi/drivebay.pc
