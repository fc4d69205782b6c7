# What this machine's pip is configured with, for builds that run pip elsewhere. Sourced by the
# scripts that build images; CERTIFICATES has to name the usual certificates.
# shellcheck shell=bash

# pip's setting on this machine, from its environment or its configuration; nothing when
# unset. An index that is a directory of this machine does not exist inside a build.
# usage: pip_setting PIP_INDEX_URL index-url
pip_setting() {
  local value=${!1-}
  [ -n "$value" ] || value=$(python3 -m pip config get "global.$2" 2>/dev/null) || true
  tr -s '[:space:]' '\n' <<<"$value" | sed '/^file:/d' | xargs
}

# Print the settings of the package index as NAME=VALUE, one a line.
pip_index_settings() {
  local setting value
  for setting in PIP_INDEX_URL:index-url PIP_EXTRA_INDEX_URL:extra-index-url \
    PIP_TRUSTED_HOST:trusted-host; do
    value=$(pip_setting "${setting%%:*}" "${setting##*:}")
    [ -z "$value" ] || echo "${setting%%:*}=$value"
  done
}

# Print the path of the certificates that pip trusts.
pip_certificates() {
  local value
  value=$(pip_setting PIP_CERT cert)
  echo "${value:-$CERTIFICATES}"
}
