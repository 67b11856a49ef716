# What setup.sh and test.sh share: messages, and packages of the system. Sourced, never run.

say() { printf '==> %s\n' "$*"; }

# fail MESSAGE HINT: one line of each, and the exit code for "the environment lacks something".
fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 3
}

# seconds_since START: whole seconds since an earlier $SECONDS.
seconds_since() { echo $((SECONDS - $1)); }

# apt_install WHY PACKAGE...: installs when we may, otherwise says what to type.
apt_install() {
    local why=$1
    shift
    if ! command -v apt-get >/dev/null; then
        fail "$why is missing" "install what your system calls: $*"
    fi
    if [ "$(id -u)" != 0 ]; then
        fail "$why is missing" "sudo apt-get install $*"
    fi
    say "System packages for $why: $*"
    if ! { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"; } \
        >.tools/apt.log 2>&1; then
        tail -n 5 .tools/apt.log >&2
        fail "$why: apt-get could not install $*" "apt-get update && apt-get install $*"
    fi
}

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
