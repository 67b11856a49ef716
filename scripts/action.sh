#!/usr/bin/env bash
# Serves a drive to the steps of a CI job that follow: what action.yml runs.
#
# usage: DRIVE=NAME [OPTIONS="..."] RUNNER_TEMP=DIR GITHUB_OUTPUT=FILE GITHUB_PATH=FILE scripts/action.sh
#
# OPTIONS has one option of `drivebay serve` a line: its name, a blank, and its value up to the end of the line,
# as it stands (no quotes, nothing is evaluated).
#
# Installs drivebay unless it is on PATH, starts `drivebay serve` in the background, waits for its
# sockets, and writes their names as the outputs `nbd` and `control`.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

# refuse MESSAGE HINT: as `fail`, and the exit code for wrong usage.
refuse() { (fail "$@") || exit 2; }

# words FILE: its text, of which the runner takes no line for a command ("::name::").
words() { sed 's/^\([[:space:]]*\)::/\1: :/' "$1"; }

# A path is written into a file of lines, in which another line would be another output.
[[ $RUNNER_TEMP != *[[:cntrl:]]* ]] || refuse "RUNNER_TEMP has a control character in it" "name another folder"

options=()
while IFS= read -r line || [ -n "$line" ]; do
    line=${line%$'\r'}
    line=${line#"${line%%[![:blank:]]*}"}
    [ -n "$line" ] || continue
    [[ $line == --[a-z]* ]] || {
        printf -v shown %q "$line"
        refuse "options: $shown is no option; there must be one a line, and it begins with --" \
            "drivebay serve --help"
    }
    name=${line%%[[:blank:]]*} # or --NAME=VALUE, of which the rest of the line is a part
    [[ $name != *=* ]] || name=$line
    value=${line#"$name"}
    value=${value#"${value%%[![:blank:]]*}"}
    options+=("$name" ${value:+"$value"})
done <<<"${OPTIONS:-}"

if ! command -v drivebay >/dev/null; then
    scripts/setup.sh
    PATH=$PWD/.venv/bin:$PATH
    printf '%s\n' "$PWD/.venv/bin" >>"$GITHUB_PATH"
fi
nbd=$RUNNER_TEMP/drivebay.nbd control=$RUNNER_TEMP/drivebay.control log=$RUNNER_TEMP/drivebay.log
cd "$RUNNER_TEMP"
nohup drivebay serve --nbd "unix:$nbd" --control "unix:$control" "${options[@]}" -- "$DRIVE" >"$log" 2>&1 &
server=$!
until [ -S "$control" ]; do
    if ! kill -0 $server 2>/dev/null; then
        words "$log" >&2
        exit 1
    fi
    sleep 0.2
done
printf 'nbd=nbd+unix:///?socket=%s\ncontrol=%s\n' "$nbd" "$control" >>"$GITHUB_OUTPUT"
printf 'drivebay serves a drive (process %s), its log is %q\n' "$server" "$log"
