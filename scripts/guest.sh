#!/usr/bin/env bash
# Fetches what the guest tests boot: a kernel of Debian and the tools of NVMe, NBD, device-mapper and MD, unpacked
# into .tools/guest. The kernel is that of Debian's backports, as the release's own lacks ublk; apt reads their list
# into a folder of .tools, and this machine's own sources stay as they are.
#
# usage: eval "$(scripts/guest.sh)"     prints the variables that tests/interop/nvme_guest.py reads
#
# Nothing is installed but QEMU, busybox, cpio and kmod, and those only as root. Where something cannot be
# had (not Debian, offline) it says so on stderr and prints nothing: the tests then say they were skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

FETCH_S=240
guest=$PWD/.tools/guest
apt=$PWD/.tools/guest.apt
mkdir -p .tools

# without WHY: no guest.
without() {
    printf '==> Guest tests: skipped, as %s\n' "$1" >&2
    exit 0
}

[ -z "${DRIVEBAY_GUEST_KERNEL:-}" ] || exit 0 # somebody has chosen
{ has apt-get && has dpkg; } || without "this is not Debian (no apt-get)"
[ "$(dpkg --print-architecture)" = amd64 ] || without "the guest is an amd64 machine"

missing=()
for package in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio modinfo:kmod; do
    has "${package%%:*}" || missing+=("${package##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || without "${missing[*]} is missing: sudo apt-get install ${missing[*]}"
    (apt_install "a guest (tests of served drives)" "${missing[@]}" >&2) ||
        without "apt-get could not install ${missing[*]}"
fi

# needs PACKAGE PATTERN: its direct dependencies of that name.
needs() { apt-cache depends "$1" | sed -n "s/^ *|\?Depends: \($2[^ ]*\)\$/\1/p"; }

# of_backports COMMAND...: with Debian's backports as the only source.
of_backports() { APT_CONFIG=$apt/config "$@"; }

# Makes the configuration for that, and reads the list of packages.
backports() {
    local release
    release=$(sed -n 's/^VERSION_CODENAME="\?\([a-z]*\)"\?$/\1/p' /etc/os-release)
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    printf 'deb [signed-by=%s] http://deb.debian.org/debian %s-backports main\n' \
        /usr/share/keyrings/debian-archive-keyring.gpg "$release" >"$apt/list"
    printf 'Dir::Etc::sourcelist "%s";\nDir::Etc::sourceparts "-";\nDir::State::lists "%s";\nDir::Cache "%s";\n' \
        "$apt/list" "$apt/lists" "$apt/cache" >"$apt/config"
    of_backports apt-get update -qq
}

# A process of its own, so that its `set -e` holds: called before `||` it would not.
if [ "${1:-}" = fetch ]; then
    backports
    kernel=$(of_backports needs linux-image-amd64 'linux-image-[0-9]' | head -n 1)
    [ -n "$kernel" ]
    [ "$(id -u)" != 0 ] || [ -n "$(needs nvme-cli lib)" ] || apt-get update -qq
    rm -rf "$guest.new"
    mkdir -p "$guest.new/kernel" "$guest.new/tools"
    cd "$guest.new"
    of_backports timeout "$FETCH_S" apt-get download -qq "$kernel"
    tools=(nvme-cli nbd-client dmsetup mdadm)
    mapfile -t libraries < <(for one in "${tools[@]}"; do needs "$one" lib; done | sort -u | grep -v '^libc6$')
    timeout "$FETCH_S" apt-get download -qq "${tools[@]}" "${libraries[@]}"
    dpkg -x linux-image-*.deb kernel
    rm linux-image-*.deb
    for package in *.deb; do dpkg -x "$package" tools; done
    rm -- *.deb
    find kernel -name '*.ko.xz' -exec xz -d {} +
    rm -rf "$guest"
    mv "$guest.new" "$guest"
    exit 0
fi

if [ -z "$(find "$guest/kernel" -name 'ublk_drv.ko' 2>/dev/null)" ]; then
    say "Guest: Debian's kernel and tools" >&2
    scripts/guest.sh fetch >.tools/guest.log 2>&1 ||
        without "Debian's packages cannot be had here (see .tools/guest.log)"
fi
printf 'export DRIVEBAY_GUEST_KERNEL=%q DRIVEBAY_GUEST_TOOLS=%q\n' "$guest/kernel" "$guest/tools"
