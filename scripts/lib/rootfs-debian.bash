# A root file system from Debian's and PyPI's packages, as images/python/Dockerfile makes it.
# Sourced by scripts/rootfs, which calls build_from_debian.
# shellcheck shell=bash

readonly CERTIFICATES=/etc/ssl/certs/ca-certificates.crt
readonly SUITE=bookworm
readonly RECIPE=$REPOSITORY/images/python
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(sed -n 's/^ARG SOURCE_DATE_EPOCH=//p' "$RECIPE/Dockerfile")}
readonly MIRROR=${ROOTFS_MIRROR:-http://deb.debian.org/debian}
readonly SECURITY_MIRROR=${ROOTFS_SECURITY_MIRROR:-http://deb.debian.org/debian-security}

# shellcheck source=/dev/null
. "$REPOSITORY/scripts/lib/pip-settings.bash"

# What has to happen inside, as the Dockerfile has it.
write_inside_script() {
  cat <<'INSIDE'
set -eu
command -v python >/dev/null || ln -s "$(command -v python3)" /usr/local/bin/python
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
useradd --uid 1000 --user-group --no-create-home --home-dir /tmp/home --shell /bin/bash sandbox
install -d -o sandbox -g sandbox /mnt/data
sh /tmp/build/pip-packages /tmp/build/requirements.txt
cp -a /packages/. /
rm -rf /packages
python3 -m compileall -qq "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" ||
  true
mkdir -p /usr/local/share/run-code/matplotlib
cp /tmp/build/requirements.txt /usr/local/share/run-code/
cp /tmp/build/matplotlibrc /usr/local/share/run-code/matplotlib/
MPLCONFIGDIR=/tmp/fonts python3 -c 'import matplotlib.pyplot'
list=$(basename /tmp/fonts/fontlist-*.json)
jq --from-file /tmp/build/font-list.jq "/tmp/fonts/$list" \
  >"/usr/local/share/run-code/matplotlib/$list"
rm -rf /tmp/fonts
INSIDE
}

# usage: build_from_debian DRAFT
build_from_debian() {
  local draft=$1 build packages settings
  command -v mmdebstrap >/dev/null ||
    die "this needs Debian's mmdebstrap: sudo apt-get install mmdebstrap"
  build=$draft/build
  mkdir "$build"
  cp "$RECIPE"/{pip-packages,requirements.txt,matplotlibrc,font-list.jq} "$build"
  cp "$(pip_certificates)" "$build/ca-bundle.crt"
  write_inside_script >"$build/inside.sh"
  packages=$(sed 's/#.*//' "$RECIPE"/apt-packages*.txt | xargs echo python3 python3-pip |
    tr ' ' ,)
  mapfile -t settings < <(pip_index_settings)
  say "installing Debian's and PyPI's packages (some minutes)"
  rmdir "$draft/rootfs"
  # shellcheck disable=SC2016  # mmdebstrap's shell expands "$1"
  mmdebstrap --quiet --variant=apt --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/{doc,info,locale,man}/*' \
    --customize-hook='mkdir "$1/tmp/build"' \
    --customize-hook="sync-in $build /tmp/build" \
    --customize-hook="chroot \"\$1\" env --ignore-environment PATH=$USUAL_PATH \
SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH ${settings[*]@Q} sh /tmp/build/inside.sh" \
    --customize-hook='rm -rf "$1/tmp/build"' \
    --format=directory "$SUITE" "$draft/rootfs" \
    "deb $MIRROR $SUITE main" "deb $MIRROR $SUITE-updates main" \
    "deb $SECURITY_MIRROR $SUITE-security main" >"$draft/log" 2>&1 ||
    { tail -n 15 "$draft/log" >&2 && die "the packages could not be installed; see above."; }
  rm -rf "$build" "$draft/log" "$draft/rootfs/dev"
}
