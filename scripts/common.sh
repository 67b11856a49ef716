# What the scripts share: messages, steps, and packages of the system. Sourced, never run.
# shellcheck shell=bash

# Some containers set this; each of the program's hundreds of starts in the tests would then compile all that it imports.
unset PYTHONDONTWRITEBYTECODE
# What was compiled by parts pays for a person who compiles again; CI compiles once.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

say() { printf '==> %s\n' "$*"; }

# fail MESSAGE HINT [CODE]: one line of each, and the exit code: 3, "the environment lacks something", or 2, wrong usage.
fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit "${3:-3}"
}

# seconds_since START: whole seconds since an earlier $SECONDS.
seconds_since() { echo $((SECONDS - $1)); }

# has COMMAND: also one of the administrator's, whose folders a user's PATH may lack.
has() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }

# lint_while_compiling: has Clippy compile the workspace's crates, as rustc does, with its lints as warnings: core, tests
# and lint then share one build. Where there is no Clippy nothing changes.
lint_while_compiling() {
    if clippy-driver --version >/dev/null 2>&1; then
        export RUSTC_WORKSPACE_WRAPPER=clippy-driver
    fi
}

# --- packages of the system, on Debian and its kin --------------------------------------------------

APT_LOCK_S=600

# may_install: are we root on a system with apt?
may_install() { [ "$(id -u)" = 0 ] && has apt-get; }

# apt ARGUMENT...: apt-get, waiting for another one to end. apt's own option waits for dpkg's lock
# only, not for the package lists' and the archive's.
apt() {
    local begun=$SECONDS
    until DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=$APT_LOCK_S "$@" >.tools/apt.log 2>&1; do
        if ! grep -q 'Could not get lock\|Unable to lock' .tools/apt.log || (($(seconds_since "$begun") > APT_LOCK_S)); then
            tail -n 5 .tools/apt.log >&2
            return 1
        fi
        sleep 2
    done
}

# apt_install WHY PACKAGE...: installs where we may; otherwise says what to type.
apt_install() {
    local why=$1
    shift
    may_install || {
        has apt-get && fail "$why is missing" "sudo apt-get install $*"
        fail "$why is missing" "install what your system calls: $*"
    }
    say "System packages for $why: $*"
    if [ -z "${APT_UPDATED:-}" ] && ! apt update || ! apt install -y --no-install-recommends "$@"; then
        fail "$why: apt-get could not install $*" "apt-get update && apt-get install $*"
    fi
    export APT_UPDATED=1
}

# apt_version PACKAGE: the version that apt would install, without Debian's part; empty if none.
apt_version() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p'
}

# at_least VERSION NEEDED
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# stamp_commit: has the package name this commit where it will run without a checkout. The name is gone when the script ends.
stamp_commit() {
    local commit changes
    commit=$(git rev-parse HEAD 2>/dev/null) || return 0
    changes=$(git status --porcelain -- python crates drives suites)
    trap 'rm -f python/drivebay/_commit' EXIT
    printf '%s\n' "$commit${changes:++changes}" >python/drivebay/_commit
}

# --- running things ---------------------------------------------------------------------------------

# quietly LOG COMMAND...: on a terminal the command's own progress shows; otherwise it goes to LOG,
# and the end of that is shown if it fails.
quietly() {
    local log=$1
    shift
    if [ -t 2 ]; then
        "$@"
        return
    fi
    "$@" >"$log" 2>&1 || {
        local code=$?
        tail -n 40 "$log" >&2
        return "$code"
    }
}

# step NAME COMMAND...: one check, with its time. Its output goes to a log, shown if it fails. Steps
# may run side by side: each says its name.
step() {
    local name=$1 start=$SECONDS log
    log=.tools/check-${name// /-}.log
    shift
    if "$@" >"$log" 2>&1 </dev/null; then
        say "$(printf '%-16s %4d s' "$name" "$(seconds_since "$start")")"
        grep '^SKIPPED' "$log" || true
        return
    fi
    cat "$log"
    printf 'error: %s failed\nhint: to repeat only this: %s\n' "$name" "$*" >&2
    return 1
}
