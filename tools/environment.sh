# Sourced by quickstart.sh and run_tests.sh: creates and updates .venv.
#
#   prepare_environment FILE...   installs files of requirements/ into .venv,
#                                 in the versions of requirements/lock.txt
#
# A file is installed again if any requirements file has changed, because they
# include each other. The hash is in the name of a file in .venv.

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
    if "$candidate" - 2>/dev/null <<'PYTHON'
import ensurepip, sys, venv
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON
    then
      echo "$candidate"
      return
    fi
  done
  cat >&2 <<'MESSAGE'
No Python 3.11, 3.12 or 3.13 with its venv module was found; TensorFlow has no
package for Python 3.14. Install one, for example:
  Debian, Ubuntu   apt-get install python3 python3-venv
  macOS            brew install python@3.13
  anywhere         https://www.python.org/downloads/
or name one: PYTHON=/path/to/python3.13 and run this again.
MESSAGE
  return 1
}

prepare_environment() {
  local python stamp file name hash
  if ! .venv/bin/python -c "" 2>/dev/null; then
    python=$(find_python) || exit 1
    echo "Making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv || exit 1
  fi
  for file in "$@"; do
    hash=$(cat requirements/*.txt | cksum | tr -d ' \n')
    name=$(basename "$file" .txt)
    stamp=".venv/installed-$name-$hash"
    if [ ! -e "$stamp" ]; then
      echo "Installing $file (TensorFlow is large: this takes a few minutes)"
      .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        -c requirements/lock.txt -r "$file" || exit 1
      rm -f ".venv/installed-$name-"*
      touch "$stamp"
    fi
  done
}
