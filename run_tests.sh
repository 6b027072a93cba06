#!/usr/bin/env bash
# Sets up .venv where it is missing, checks style and types, runs the tests.
#
#   ./run_tests.sh                 all tests but those of the groups below
#   ./run_tests.sh --fast          without the runs of scripts
#   ./run_tests.sh -m slow         another group: slow, shared, peer, gpu
#   ./run_tests.sh tests/vocab     some of it; arguments go to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/environment.sh
prepare_environment requirements/dev.txt

export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
# Without it, each program that a test starts compiles our modules again.
unset PYTHONDONTWRITEBYTECODE
# One thread of arithmetic for each of the processes below.
export TF_NUM_INTRAOP_THREADS=${TF_NUM_INTRAOP_THREADS:-1}
# A file of tests stays in one process, so that what its tests share is made
# once. More than four processes would need more than 8 GB.
processes=$(.venv/bin/python -c 'import os; print(min(os.cpu_count(), 4))')
exec .venv/bin/python -m pytest -q -n "$processes" --dist=loadfile \
  --no-loadscope-reorder "$@"
