#!/usr/bin/env bash
# Fetches what the guest tests boot: a kernel of Debian and the tools of NVMe, NBD, device-mapper and MD, unpacked
# into .tools/guest, and nvme-cli's and fio's own tests, into .tools/suite. The kernel is that of Debian 13's backports, as
# the release's own lacks ublk, and write streams begin with 6.16; the tests come with unstable's nvme-cli and fio. apt reads their lists into a folder of .tools, and
# this machine's own sources stay as they are.
#
# usage: eval "$(scripts/guest.sh)"     prints the variables that tests/interop/nvme_guest.py reads
#
# Where the machine's own QEMU cannot have a served drive as a PCIe device (vfio-user-pci, from 11.1 on), unstable's is unpacked
# into .tools/qemu, with all that it depends on.
#
# Nothing is installed but QEMU, busybox, cpio and kmod, and those only as root. Where something cannot be
# had (not Debian, offline) it says so on stderr and prints nothing: the tests then say they were skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

FETCH_S=240
guest=$PWD/.tools/guest
suite=$PWD/.tools/suite
qemu=$PWD/.tools/qemu
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

# takes_drives QEMU: whether that can have a served drive as a PCIe device.
takes_drives() { "$1" -device vfio-user-pci,help 2>/dev/null | grep -q '^vfio-user-pci'; }

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

# download FOLDER PACKAGE...: unpacks these into FOLDER/root, with all that they depend on, as if nothing were installed.
download() {
    local folder=$1 packages
    shift
    mapfile -t packages < <(of_list apt-get install -s -qq --no-install-recommends "$@" |
        sed -n 's/^Inst \([^ ]*\) .*/\1/p')
    [ ${#packages[@]} -gt 2 ]
    mkdir -p "$folder/root/usr/bin" "$folder/debs"
    (cd "$folder/debs" && of_list timeout "$FETCH_S" apt-get download -qq "${packages[@]}")
    for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done
    rm -rf "$folder/debs" "$folder"/root/usr/share/{doc,man,locale,zoneinfo}
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
    tools=(nvme-cli fio python3 python3-nose2 sg3-utils f2fs-tools btrfs-progs e2fsprogs xfsprogs)
    tools+=(bash coreutils diffutils findutils gawk grep mount procps sed util-linux util-linux-extra)
    rm -rf "$suite.new"
    download "$suite.new" "${tools[@]}"
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

# Its programs and libraries find one another beside whatever is installed.
if [ "${1:-}" = fetch-qemu ]; then
    sources unstable
    : >"$apt/status"
    printf 'Dir::State::status "%s";\n' "$apt/status" >>"$apt/config"
    rm -rf "$qemu.new"
    download "$qemu.new" qemu-system-x86
    cat >"$qemu.new/qemu" <<'END'
#!/bin/sh
root=$(dirname "$(realpath "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export QEMU_MODULE_DIR=$libraries/qemu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
END
    chmod +x "$qemu.new/qemu"
    takes_drives "$qemu.new/qemu"
    rm -rf "$qemu"
    mv "$qemu.new" "$qemu"
    exit 0
fi

if [ -z "$(find "$guest/kernel/usr" -name 'ublk_drv.ko' 2>/dev/null)" ]; then
    say "Guest: Debian's kernel and tools" >&2
    scripts/guest.sh fetch >.tools/guest.log 2>&1 ||
        without "Debian's packages cannot be had here (see .tools/guest.log)"
fi
if [ ! -e "$suite/root/usr/sbin/mkfs.xfs" ]; then
    say "Guest: nvme-cli's and fio's own tests, and programs for them" >&2
    scripts/guest.sh fetch-suite >.tools/suite.log 2>&1 ||
        printf '==> nvme-cli'"'"'s and fio'"'"'s own tests: skipped, as they cannot be had here (see .tools/suite.log)\n' >&2
fi
if ! takes_drives "${DRIVEBAY_QEMU:-qemu-system-x86_64}" && [ ! -x "$qemu/qemu" ]; then
    say "Guest: a QEMU for drives as PCIe devices" >&2
    scripts/guest.sh fetch-qemu >.tools/qemu.log 2>&1 ||
        printf '==> Served drives as PCIe devices: skipped, as no such QEMU can be had here (see .tools/qemu.log)\n' >&2
fi
printf 'export DRIVEBAY_GUEST_KERNEL=%q DRIVEBAY_GUEST_TOOLS=%q\n' "$guest/kernel" "$guest/tools"
[ ! -d "$suite" ] || printf 'export DRIVEBAY_GUEST_SUITE=%q\n' "$suite"
[ -n "${DRIVEBAY_QEMU:-}" ] || [ ! -x "$qemu/qemu" ] || printf 'export DRIVEBAY_QEMU=%q\n' "$qemu/qemu"
