# How the scripts tell what they do, and how a long step fails. Sourced by scripts that set
# TELLER, the word in front of each line, and LOGS, the folder of the steps' logs.
# shellcheck shell=bash

say() { echo "[$TELLER +${SECONDS}s] $*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# Run a long step with its output in a log; when it fails, show the end of the log and say
# what to do next. The step runs in a subshell under its own `set -e`, which bash would
# ignore if the step were called in a condition.
# usage: logged LOG ADVICE COMMAND...
logged() {
  local log=$LOGS/$1.log advice=$2 status
  shift 2
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1 </dev/null
  status=$?
  set -e
  [ "$status" -eq 0 ] || die_with_log "$log" "$advice"
}

die_with_log() {
  {
    echo "--- the end of $1"
    tail -n 15 "$1"
    echo "---"
  } >&2
  die "$2"
}
