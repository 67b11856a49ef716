#!/usr/bin/env bash
# Fetches what the guest tests boot: a kernel of Debian and the tools of NVMe, NBD, device-mapper and MD, unpacked
# into .tools/guest, and nvme-cli's and fio's own tests, into .tools/suite. The kernel is that of Debian 13's backports, as
# the release's own lacks ublk, and write streams begin with 6.16; the tests come with unstable's nvme-cli and fio. apt reads their lists into a folder of .tools, and
# this machine's own sources stay as they are.
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
suite=$PWD/.tools/suite
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

# of_list COMMAND...: with one of Debian's releases as the only source.
of_list() { APT_CONFIG=$apt/config "$@"; }

# sources RELEASE: makes the configuration for that, and reads the list of packages.
sources() {
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    printf '%s [signed-by=%s] http://deb.debian.org/debian %s main\n' \
        deb /usr/share/keyrings/debian-archive-keyring.gpg "$1" \
        deb-src /usr/share/keyrings/debian-archive-keyring.gpg "$1" >"$apt/list"
    printf 'Dir::Etc::sourcelist "%s";\nDir::Etc::sourceparts "-";\nDir::State::lists "%s";\nDir::Cache "%s";\n' \
        "$apt/list" "$apt/lists" "$apt/cache" >"$apt/config"
    of_list apt-get update -qq
}

# A process of its own, so that its `set -e` holds: called before `||` it would not.
if [ "${1:-}" = fetch ]; then
    sources trixie-backports
    kernel=$(of_list needs linux-image-amd64 'linux-image-[0-9]' | head -n 1)
    [ -n "$kernel" ]
    # The kernel itself, its modules and their lists have packages of their own.
    mapfile -t parts < <(of_list needs "$kernel" 'linux-\(base\|binary\|modules\)-[0-9]')
    [ "$(id -u)" != 0 ] || [ -n "$(needs nvme-cli lib)" ] || apt-get update -qq
    rm -rf "$guest.new"
    mkdir -p "$guest.new/kernel" "$guest.new/tools"
    cd "$guest.new"
    of_list timeout "$FETCH_S" apt-get download -qq "${parts[@]}"
    tools=(nvme-cli nbd-client dmsetup mdadm)
    mapfile -t libraries < <(for one in "${tools[@]}"; do needs "$one" lib; done | sort -u | grep -v '^libc6$')
    timeout "$FETCH_S" apt-get download -qq "${tools[@]}" "${libraries[@]}"
    for package in linux-*.deb; do dpkg -x "$package" kernel; done
    rm linux-*.deb
    mkdir -p kernel/boot
    find kernel/usr -name vmlinuz -exec cp {} kernel/boot/vmlinuz-guest \;
    for package in *.deb; do dpkg -x "$package" tools; done
    rm -- *.deb
    find kernel -name '*.ko.xz' -exec xz -d {} +
    rm -rf "$guest"
    mv "$guest.new" "$guest"
    exit 0
fi

# nvme-cli's and fio's own tests, of their source packages, and a root that can run them: unstable's programs, with all
# that they depend on, as if nothing were installed.
if [ "${1:-}" = fetch-suite ]; then
    sources unstable
    : >"$apt/status"
    printf 'Dir::State::status "%s";\n' "$apt/status" >>"$apt/config"
    tools=(nvme-cli fio python3 python3-nose2 sg3-utils f2fs-tools btrfs-progs)
    tools+=(bash coreutils diffutils findutils gawk grep mount procps sed util-linux util-linux-extra)
    mapfile -t packages < <(of_list apt-get install -s -qq --no-install-recommends "${tools[@]}" |
        sed -n 's/^Inst \([^ ]*\) .*/\1/p')
    [ ${#packages[@]} -gt 2 ]
    rm -rf "$suite.new"
    mkdir -p "$suite.new/root/usr/bin" "$suite.new/debs"
    (cd "$suite.new/debs" && of_list timeout "$FETCH_S" apt-get download -qq "${packages[@]}")
    for package in "$suite.new"/debs/*.deb; do dpkg -x "$package" "$suite.new/root"; done
    rm -rf "$suite.new/debs" "$suite.new"/root/usr/share/{doc,man,locale,zoneinfo}
    for folder in bin sbin lib lib64; do [ -e "$suite.new/root/$folder" ] || ln -s "usr/$folder" "$suite.new/root/$folder"; done
    cd "$suite.new"
    # Without the source's description, which it does without, apt says that it failed.
    for source in nvme-cli fio; do
        of_list timeout "$FETCH_S" apt-get source -qq --download-only "$source" || true
        tar -xf "$source"_*.orig.tar.*
        rm -f "$source"_*
    done
    rm -rf "$suite"
    mv "$suite.new" "$suite"
    exit 0
fi

if [ -z "$(find "$guest/kernel/usr" -name 'ublk_drv.ko' 2>/dev/null)" ]; then
    say "Guest: Debian's kernel and tools" >&2
    scripts/guest.sh fetch >.tools/guest.log 2>&1 ||
        without "Debian's packages cannot be had here (see .tools/guest.log)"
fi
if [ ! -e "$suite/root/usr/sbin/mkfs.f2fs" ]; then
    say "Guest: nvme-cli's and fio's own tests, and programs for them" >&2
    scripts/guest.sh fetch-suite >.tools/suite.log 2>&1 ||
        printf '==> nvme-cli'"'"'s and fio'"'"'s own tests: skipped, as they cannot be had here (see .tools/suite.log)\n' >&2
fi
printf 'export DRIVEBAY_GUEST_KERNEL=%q DRIVEBAY_GUEST_TOOLS=%q\n' "$guest/kernel" "$guest/tools"
[ ! -d "$suite" ] || printf 'export DRIVEBAY_GUEST_SUITE=%q\n' "$suite"
