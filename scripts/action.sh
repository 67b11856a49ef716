#!/usr/bin/env bash
# Serves a drive to the steps of a CI job that follow: what action.yml runs.
#
# usage: DRIVE=NAME [OPTIONS="..."] RUNNER_TEMP=DIR GITHUB_OUTPUT=FILE GITHUB_PATH=FILE scripts/action.sh
#
# Installs drivebay unless it is on PATH, starts `drivebay serve` in the background, waits for its
# sockets, and writes their names as the outputs `nbd` and `control`.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v drivebay >/dev/null; then
    scripts/setup.sh
    PATH=$PWD/.venv/bin:$PATH
    echo "$PWD/.venv/bin" >>"$GITHUB_PATH"
fi
nbd=$RUNNER_TEMP/drivebay.nbd control=$RUNNER_TEMP/drivebay.control log=$RUNNER_TEMP/drivebay.log
# OPTIONS are words, as in a shell.
eval "options=(${OPTIONS:-})"
cd "$RUNNER_TEMP"
nohup drivebay serve "$DRIVE" --nbd "unix:$nbd" --control "unix:$control" "${options[@]}" >"$log" 2>&1 &
server=$!
until [ -S "$control" ]; do
    if ! kill -0 $server 2>/dev/null; then
        cat "$log" >&2
        exit 1
    fi
    sleep 0.2
done
{
    echo "nbd=nbd+unix:///?socket=$nbd"
    echo "control=$control"
} >>"$GITHUB_OUTPUT"
echo "drivebay serves $DRIVE (process $server), its log is $log"
