# How scripts run uv. Sourced by scripts/test, scripts/test-owui-matrix and
# scripts/compose-images.
# shellcheck shell=bash

# uv does not read pip's configuration.
# usage: in_uv_environment PYTHON CACHE_FOLDER COMMAND...; PYTHON has the pip that counts
in_uv_environment() {
  local python=$1 index certificates settings=("UV_CACHE_DIR=$2")
  shift 2
  index=${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}
  certificates=${PIP_CERT:-$("$python" -m pip config get global.cert 2>/dev/null || true)}
  [ -z "$index" ] || settings+=("UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}")
  [ -z "$certificates" ] || settings+=("SSL_CERT_FILE=${SSL_CERT_FILE:-$certificates}")
  env "${settings[@]}" "$@"
}

# Only a local embedding model would need PyTorch, and its usual build has gigabytes.
# usage: leave_out_torch FILE, for uv pip install --overrides
leave_out_torch() { echo 'torch; python_version < "3"' >"$1"; }
