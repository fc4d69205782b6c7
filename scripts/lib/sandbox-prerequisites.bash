# Programs that sandboxes need: Debian's packages and runsc. Sourced by scripts/sandbox-host and
# scripts/embedded-host, which call ensure_packages and ensure_runsc.
# shellcheck shell=bash

readonly CERTIFICATES=/etc/ssl/certs/ca-certificates.crt
readonly DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
# runsc is Debian's even where the machine is not.
readonly RUNSC_SUITE=${SANDBOX_HOST_RUNSC_SUITE:-trixie}
# Older releases lack --overlay2 and answer EINVAL on a full tmpfs.
readonly OLDEST_RUNSC=20230801

# ---- packages ----------------------------------------------------------------------------

present() { command -v "$1" >/dev/null || [ -e "$1" ]; }

# What has to be there, each with Debian's package: for a Docker Engine, and for images.
readonly DOCKER_PROGRAMS=(dockerd:docker.io containerd:containerd runc:runc iptables:iptables
  ip:iproute2 mount:mount)
readonly IMAGE_PROGRAMS=(mmdebstrap:mmdebstrap "$DEBIAN_KEYS:debian-archive-keyring"
  "$CERTIFICATES:ca-certificates")

# usage: missing_packages PROGRAM:PACKAGE...
missing_packages() {
  local entry
  for entry in "$@"; do
    present "${entry%%:*}" || echo "${entry##*:}"
  done
  [[ " $* " == *" dockerd:"* ]] || return 0
  # Where the kernel enforces AppArmor, no container starts without its parser.
  ! grep -qs Y /sys/module/apparmor/parameters/enabled || present apparmor_parser ||
    echo apparmor
  # Debian 13 has the client in a package of its own, which is only recommended.
  present docker ||
    { apt-cache show docker-cli 2>/dev/null || true; } | sed -n 's/^Package: //p' | sort -u
}

# The packages are wanted for their programs: a policy file keeps apt from starting the
# system's own Docker daemon.
install_packages() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f '"$policy" EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -q -y \
    --no-install-recommends "$@"
}

# usage: ensure_packages PROGRAM:PACKAGE...
ensure_packages() {
  [ -n "$(missing_packages "$@")" ] || return 0
  command -v apt-get >/dev/null ||
    die "this needs apt; install by hand: $(missing_packages "$@" | xargs)"
  say "apt-get update"
  logged apt-update "apt-get update failed: check the machine's apt sources and network." \
    apt-get update -q
  local packages
  mapfile -t packages < <(missing_packages "$@")
  say "apt-get install ${packages[*]}"
  logged apt "apt-get install failed: mend what the log says, then run this again." \
    install_packages "${packages[@]}"
}

# ---- runsc -------------------------------------------------------------------------------

# The release date of a runsc: its own releases print release-20240729.0, Debian's
# packages 0.0~20240729.0.
runsc_date() { "$1" --version 2>/dev/null | sed -nE '1s/.*(release-|0\.0~)([0-9]{8}).*/\2/p'; }

recent_runsc() {
  local date
  date=$(runsc_date "$1")
  [ "${date:-0}" -ge "$OLDEST_RUNSC" ]
}

# usage: machine_mirror SUFFIX DEFAULT; the URL of the machine's apt source for Debian's
# release (SUFFIX empty) or for its security updates (SUFFIX -security).
machine_mirror() {
  local id codename url=
  # shellcheck source=/dev/null
  read -r id codename < <(. /etc/os-release && echo "${ID:-} ${VERSION_CODENAME:-}")
  if [ "$id" = debian ]; then
    # Other vendors' sources name the same suites; the origin is unknown, and then empty,
    # until the first apt-get update.
    # shellcheck disable=SC2016  # apt expands these
    url=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)' \
      'Created-By: Packages' | awk -F'|' -v suite="$codename$1" \
      '($1 == "Debian" || $1 == "") && $2 == "main" && $3 == suite && !n++ {print $4}')
  fi
  echo "${url:-$2}"
}

debian_mirror() {
  echo "${SANDBOX_HOST_MIRROR:-$(machine_mirror '' http://deb.debian.org/debian)}"
}

debian_security_mirror() {
  local default=http://deb.debian.org/debian-security
  echo "${SANDBOX_HOST_SECURITY_MIRROR:-$(machine_mirror -security $default)}"
}

# Fetch the package with apt's own checks, but with lists and cache of its own: the
# machine's apt sources stay as they are.
download_runsc() {
  local apt=$SCRATCH/apt
  mkdir -p "$apt"/{lists/partial,cache/archives/partial}
  echo "deb [signed-by=$DEBIAN_KEYS] $(debian_mirror) $RUNSC_SUITE main" >"$apt/sources.list"
  local options=(-q -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download runsc)
  dpkg-deb --extract "$apt"/runsc_*.deb "$apt/root"
  install -m 755 "$apt/root/usr/bin/runsc" "$RUNSC"
}

ensure_runsc() {
  recent_runsc "$RUNSC" && return
  mkdir -p "$(dirname "$RUNSC")"
  local installed
  installed=$(command -v runsc || true)
  if [ -n "$installed" ] && recent_runsc "$installed"; then
    ln -sf "$installed" "$RUNSC"
    return
  fi
  say "downloading runsc from Debian $RUNSC_SUITE"
  logged runsc "could not get runsc: set SANDBOX_HOST_MIRROR to a Debian mirror that has \
$RUNSC_SUITE, or put a runsc of $OLDEST_RUNSC or later into the PATH." download_runsc
}
