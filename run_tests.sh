#!/usr/bin/env bash
# Sets up .venv where it is missing, checks style, runs the tests.
#
#   ./run_tests.sh                 the fast suite
#   ./run_tests.sh -m slow         another group: slow, shared, peer, gpu
#   ./run_tests.sh tests/vocab     some of it; arguments go to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/environment.sh
prepare_environment requirements-dev.txt

export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
.venv/bin/ruff check .
.venv/bin/ruff format --check .
exec .venv/bin/python -m pytest -q "$@"
