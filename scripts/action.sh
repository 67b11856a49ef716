#!/usr/bin/env bash
# Serves a drive to the steps of a CI job that follow: what action.yml runs.
#
# usage: DRIVE=NAME [OPTIONS=LINES] [AILMENTS=NAMES] [COMMAND=TEXT [CHECK=TEXT | GATE=TEXT] [CHECK_OPTIONS=LINES]] RUNNER_TEMP=DIR GITHUB_OUTPUT=FILE GITHUB_PATH=FILE scripts/action.sh
#
# Installs drivebay unless it is on PATH, starts `drivebay serve` in the background, waits until it tells its status, and
# writes the names of its sockets as the outputs `nbd` and `control`. Sockets and log lie in a new folder of RUNNER_TEMP that is
# named by the step, so that a job may have the step several times, and what an earlier job left there does not matter.
#
# Each line of OPTIONS is an option of `drivebay serve`: --NAME, --NAME VALUE or --NAME=VALUE. The value is the rest
# of the line as it stands: nothing in it is evaluated, and quotes are part of it. Blanks around name and value,
# carriage returns at the end and empty lines do not count; any other line is refused.
#
# With COMMAND, a text for bash, nothing is left running: for each of AILMENTS, separated by blanks, a drive is served, the
# command is run on it, and the drive ends. The command has DRIVEBAY_NBD, DRIVEBAY_CONTROL and DRIVEBAY_AILMENT in its environment. The
# step fails if one of the runs, or its server at the end (--require-pace), did, after all of them.
#
# With CHECK, a text for bash too, the command is recorded on one drive, and the check is run on every state that a power cut could
# have left: its $1 is the state's file. CHECK_OPTIONS are options of `drivebay crash run`, one per line like OPTIONS: --after, --states,
# --timeout, --drive. The outputs `recording`, `run` and `failing-states` are the recording, the folder with the verdicts, and a folder with
# an image of each smallest failing state and the events that lead to it (*.txt), which is empty if all states are good.
#
# With GATE, a text for bash too, the command and GATE, its version before the change, are recorded by `drivebay gate` (as root, by
# sudo if need be) and compared on the drive. OPTIONS are options of `drivebay gate record`, CHECK_OPTIONS of `drivebay gate compare`. The
# table is also put into the job's summary; the output `recordings` is the folder of both sets.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

# words FILE: its text, of which the runner takes no line for a command ("::name::").
words() { sed 's/^\([[:space:]]*\)::/\1: :/' "$1"; }

# Steps put the outputs into URIs and into scripts.
[[ $RUNNER_TEMP =~ ^/[A-Za-z0-9._/+@-]*$ ]] ||
    fail "RUNNER_TEMP: ${RUNNER_TEMP@Q} is not allowed; must be a whole path of letters, digits and . _ + @ - /" \
        "RUNNER_TEMP=/tmp" 2
# read_options ARRAY INPUT TEXT COMMAND EXAMPLE: the lines of TEXT as words in ARRAY.
read_options() {
    local -n words=$1
    local line lines=$3$'\n'
    while read -r line; do
        [ -n "$line" ] || continue
        [[ $line =~ ^(--[a-z][a-z0-9-]*)($|[[:blank:]=][[:blank:]]*(.*)$) ]] ||
            fail "$2: ${line@Q} is not an option of drivebay $4" "one a line: $5" 2
        # With =, no value is taken for another option.
        words+=("${BASH_REMATCH[1]}${BASH_REMATCH[2]:+=${BASH_REMATCH[3]}}")
    done <<<"${lines//$'\r\n'/$'\n'}"
}
options=() check_options=()
read_options options options "${OPTIONS:-}" serve "--pace none"
read_options check_options check-options "${CHECK_OPTIONS:-}" "crash run" "--after ready"

read -ra ailments <<<"${AILMENTS:-} "
for ailment in "${ailments[@]}"; do
    [[ $ailment =~ ^[a-z0-9][a-z0-9:%./-]*$ ]] ||
        fail "ailments: ${ailment@Q} is no name" "drivebay drives --ailments lists them: slow-die hot" 2
done

if ! command -v drivebay >/dev/null; then
    [[ $PWD != *$'\n'* ]] || fail "a line break is in the folder's name: ${PWD@Q}" "check it out elsewhere" 2
    scripts/setup.sh
    PATH=$PWD/.venv/bin:$PATH
    echo "$PWD/.venv/bin" >>"$GITHUB_PATH"
fi

place=$RUNNER_TEMP/drivebay${GITHUB_ACTION:+-${GITHUB_ACTION//[^A-Za-z0-9_-]/_}}
make_folder() {
    folder=$(mktemp -d "$place.XXXXXX") || fail "RUNNER_TEMP: no folder can be made in it" "RUNNER_TEMP=/tmp"
}

# serve OPTION...: starts a server with these options besides the others, and waits until it answers; sets server, folder,
# nbd, control and log.
serve() {
    make_folder
    nbd=$folder/nbd control=$folder/control log=$folder/log
    nohup drivebay serve "${options[@]}" "$@" "--nbd=unix:$nbd" "--control=unix:$control" -- "$DRIVE" >"$log" 2>&1 &
    server=$!
    # A socket that is there says nothing: the server may have ended since.
    until [ -S "$control" ] && drivebay ctl "$control" status >/dev/null 2>&1; do
        if ! kill -0 $server 2>/dev/null; then
            words "$log" >&2
            exit 1
        fi
        sleep 0.2
    done
}

cd "$RUNNER_TEMP"
if [ -z "${COMMAND:-}" ]; then
    serve "${ailments[@]/#/--ailment=}"
    {
        echo "nbd=nbd+unix:///?socket=$nbd"
        echo "control=$control"
    } >>"$GITHUB_OUTPUT"
    echo "drivebay serves the drive (process $server), its log is $log"
    exit
fi
if [ -n "${GATE:-}" ]; then
    if [ ${#ailments[@]} != 0 ] || [ -n "${CHECK:-}" ]; then
        fail "ailments, check and gate do not go together" "a step for each" 2
    fi
    make_folder
    echo "recordings=$folder" >>"$GITHUB_OUTPUT"
    root=(env)
    [ "$(id -u)" = 0 ] || root=(sudo -E env "PATH=$PATH")
    for version in base new; do
        text=$COMMAND
        [ $version = new ] || text=$GATE
        "${root[@]}" drivebay gate record "${options[@]}" "--out=$folder/$version" -- bash -c "$text" </dev/null
    done
    drivebay gate compare "--drive=$DRIVE" "${check_options[@]}" "$folder/base" "$folder/new" | tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"
    exit
fi
if [ -n "${CHECK:-}" ]; then
    [ ${#ailments[@]} = 0 ] || fail "ailments and check do not go together" "a step for each" 2
    make_folder
    recording=$folder/command.crash run=$folder/command.crash.run failing=$folder/failing-states
    mkdir "$failing"
    printf '%s\n' "recording=$recording" "run=$run" "failing-states=$failing" >>"$GITHUB_OUTPUT"
    drivebay crash record "${options[@]}" "--out=$recording" "$DRIVE" -- bash -c "$COMMAND" </dev/null
    code=0
    drivebay crash run "${check_options[@]}" "--out=$run" "$recording" -- bash -c "$CHECK" check '{}' </dev/null |
        tee "$folder/report" || code=$?
    # Each kind of failure begins with the name of its smallest state.
    sed -n 's/^smallest failing state for .*: //p' "$folder/report" | while read -r state; do
        # Runners do not upload names with colons.
        drivebay crash replay "$run" "$state" --file "$failing/${state//:/_}.img" 2>"$failing/${state//:/_}.txt" >/dev/null
    done
    exit $code
fi
failed=()
trap 'kill "${server:-}" 2>/dev/null || true' EXIT
for ailment in "${ailments[@]:-none}"; do
    own=("--ailment=$ailment")
    [ "$ailment" != none ] || own=()
    serve "${own[@]}"
    echo "== $ailment"
    DRIVEBAY_NBD="nbd+unix:///?socket=$nbd" DRIVEBAY_CONTROL=$control DRIVEBAY_AILMENT=$ailment \
        bash -c "$COMMAND" </dev/null || failed+=("$ailment (exit code $?)")
    kill $server 2>/dev/null || true
    ended=0
    wait $server || ended=$?
    # Its own words count as well: that the machine was too slow (--require-pace), or nearly so.
    words "$log" | grep -A 1 -E '^(error|warning): ' >&2 || true
    [ $ended = 0 ] || failed+=("$ailment (exit code $ended of the server)")
done
[ ${#failed[@]} = 0 ] || fail "the command failed on: ${failed[*]}" "its output stands above; the drives' figures in $place.*/log" 1
echo "the command succeeded on: ${ailments[*]:-none}"
