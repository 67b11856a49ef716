#!/usr/bin/env bash
# Serves a drive to the steps of a CI job that follow: what action.yml runs.
#
# usage: DRIVE=NAME [OPTIONS=LINES] RUNNER_TEMP=DIR GITHUB_OUTPUT=FILE GITHUB_PATH=FILE scripts/action.sh
#
# Installs drivebay unless it is on PATH, starts `drivebay serve` in the background, waits for its
# sockets, and writes their names as the outputs `nbd` and `control`. Sockets and log lie in a new folder of RUNNER_TEMP,
# so that a job may have the step several times, and what an earlier job left there does not matter.
#
# Each line of OPTIONS is an option of `drivebay serve`: --NAME, --NAME VALUE or --NAME=VALUE. The value is the rest
# of the line as it stands: nothing in it is evaluated, and quotes are part of it. Blanks around name and value,
# carriage returns at the end and empty lines do not count; any other line is refused.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

# words FILE: its text, of which the runner takes no line for a command ("::name::").
words() { sed 's/^\([[:space:]]*\)::/\1: :/' "$1"; }

# Steps put the outputs into URIs and into scripts.
[[ $RUNNER_TEMP =~ ^/[A-Za-z0-9._/+@-]*$ ]] ||
    fail "RUNNER_TEMP: ${RUNNER_TEMP@Q} is not allowed; must be a whole path of letters, digits and . _ + @ - /" \
        "RUNNER_TEMP=/tmp" 2
options=() lines=${OPTIONS:-}$'\n'
while read -r line; do
    [ -n "$line" ] || continue
    [[ $line =~ ^(--[a-z][a-z0-9-]*)($|[[:blank:]=][[:blank:]]*(.*)$) ]] ||
        fail "options: ${line@Q} is not an option of drivebay serve" "one a line: --pace none" 2
    # With =, no value is taken for another option.
    options+=("${BASH_REMATCH[1]}${BASH_REMATCH[2]:+=${BASH_REMATCH[3]}}")
done <<<"${lines//$'\r\n'/$'\n'}"

if ! command -v drivebay >/dev/null; then
    [[ $PWD != *$'\n'* ]] || fail "a line break is in the folder's name: ${PWD@Q}" "check it out elsewhere" 2
    scripts/setup.sh
    PATH=$PWD/.venv/bin:$PATH
    echo "$PWD/.venv/bin" >>"$GITHUB_PATH"
fi
folder=$(mktemp -d "$RUNNER_TEMP/drivebay.XXXXXX") || fail "RUNNER_TEMP: no folder can be made in it" "RUNNER_TEMP=/tmp"
nbd=$folder/nbd control=$folder/control log=$folder/log
cd "$RUNNER_TEMP"
nohup drivebay serve "${options[@]}" "--nbd=unix:$nbd" "--control=unix:$control" -- "$DRIVE" >"$log" 2>&1 &
server=$!
until [ -S "$control" ]; do
    if ! kill -0 $server 2>/dev/null; then
        words "$log" >&2
        exit 1
    fi
    sleep 0.2
done
{
    echo "nbd=nbd+unix:///?socket=$nbd"
    echo "control=$control"
} >>"$GITHUB_OUTPUT"
echo "drivebay serves the drive (process $server), its log is $log"
