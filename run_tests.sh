#!/usr/bin/env bash
# Sets up .venv where it is missing, checks style and types, runs the tests.
#
#   ./run_tests.sh                 style, types and the fast tests
#   ./run_tests.sh --all           with the runs of programs: what CI runs
#   ./run_tests.sh -m slow         another group: slow, shared, peer, gpu
#   ./run_tests.sh tests/vocab     some of it; arguments go to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/environment.sh
prepare_environment requirements/dev.txt

part=--fast
arguments=()
for argument in "$@"; do
  case $argument in
    --all) part= ;;
    -m*) part=; arguments+=("$argument") ;;
    *) arguments+=("$argument") ;;
  esac
done

export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
.venv/bin/ruff check .
.venv/bin/ruff format --check .
# Types are checked beside the tests.
types=$(mktemp)
.venv/bin/mypy >"$types" 2>&1 &
mypy=$!
trap 'kill "$mypy" 2>/dev/null || true; rm -f "$types"' EXIT
# Without it, each program that a test starts compiles our modules again.
unset PYTHONDONTWRITEBYTECODE
# One thread of arithmetic for each of the processes below.
export TF_NUM_INTRAOP_THREADS=${TF_NUM_INTRAOP_THREADS:-1}
# A file of tests stays in one process, so that what its tests share is made
# once. More than four processes would need more than 8 GB.
processes=$(.venv/bin/python -c 'import os; print(min(os.cpu_count(), 4))')
tests=0
.venv/bin/python -m pytest -q -n "$processes" --dist=loadfile \
  --no-loadscope-reorder $part ${arguments[@]+"${arguments[@]}"} || tests=$?
wait "$mypy" || { cat "$types"; exit 1; }
tail -n 1 "$types"
if [ -n "$part" ]; then
  echo "These were the fast tests. ./run_tests.sh --all adds the runs of" \
    "programs: 10 minutes in all on two cores."
fi
exit "$tests"
