# The sandbox image and its base. Sourced by scripts/sandbox-host, which calls ensure_image.
# shellcheck shell=bash

# shellcheck source=/dev/null
. "$REPOSITORY/scripts/lib/pip-settings.bash"

readonly IMAGE=run-code-python:latest
readonly BASE_IMAGE=run-code-base:latest
readonly RECIPE_DIR=$REPOSITORY/images/python
# An image carries the hash of what it was made from: it is built again only after a change.
readonly RECIPE_LABEL=run-code.recipe
# Debian's even where the machine is not: one tested set of packages.
readonly BASE_SUITE=bookworm
# The date of all files in an image; mmdebstrap and docker build take it from here.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(sed -n 's/^ARG SOURCE_DATE_EPOCH=//p' "$RECIPE_DIR/Dockerfile")}
export SOURCE_DATE_EPOCH

hash_of() { sha256sum | cut -c1-16; }

built_from() {
  [ "$(docker image inspect --format "{{index .Config.Labels \"$RECIPE_LABEL\"}}" "$1" \
    2>/dev/null)" = "$2" ]
}

image_size() {
  docker image inspect --format '{{.Size}}' "$1" | numfmt --to=si --suffix=B --format='%.1f'
}

# ---- the base ----------------------------------------------------------------------------

base_packages() { sed 's/#.*//' "$RECIPE_DIR"/apt-packages*.txt | xargs echo python3 python3-pip; }

base_recipe() { echo "$BASE_SUITE $SOURCE_DATE_EPOCH $(base_packages)" | hash_of; }

# A base straight from Debian's packages: no image registry is needed. It gets its name last,
# because the import of a broken stream succeeds too.
build_base() {
  local mirror security id
  mirror=$(debian_mirror)
  security=$(debian_security_mirror)
  id=$(
    TMPDIR=$SCRATCH mmdebstrap --quiet --variant=apt \
      --include="$(base_packages | tr ' ' ,)" \
      --dpkgopt='path-exclude=/usr/share/{doc,info,locale,man}/*' \
      "$BASE_SUITE" - \
      "deb $mirror $BASE_SUITE main" \
      "deb $mirror $BASE_SUITE-updates main" \
      "deb $security $BASE_SUITE-security main" |
      docker import --change "LABEL $RECIPE_LABEL=$(base_recipe)" -
  )
  docker tag "$id" "$BASE_IMAGE"
}

ensure_base() {
  built_from "$BASE_IMAGE" "$(base_recipe)" && return
  say "building a Debian $BASE_SUITE base with mmdebstrap (about a minute)"
  logged base "the base image could not be built: check the Debian mirror \
($(debian_mirror)), set SANDBOX_HOST_MIRROR to another, or name a ready image in \
SANDBOX_HOST_BASE_IMAGE." build_base
}

# ---- the image ---------------------------------------------------------------------------

# Print the options for docker build, one a line.
build_options() {
  local name
  pip_index_settings | sed 's/^/--build-arg=/'
  echo "--build-arg=SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH"
  # Docker takes these from the environment and keeps them out of the image.
  for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name-}" ] || echo "--build-arg=$name"
  done
}

# usage: build_from FOLDER NAME BASE RECIPE ARGUMENT...; builds images/FOLDER in $SCRATCH
build_from() {
  local context=$SCRATCH/$1 name=$2 base=$3 recipe=$4 options
  cp -R "$REPOSITORY/images/$1" "$context"
  shift 4
  cp "$(pip_certificates)" "$context/ca-bundle.crt"
  find "$context" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
  mapfile -t options < <(build_options)
  # The classic builder needs no plugin, which Debian does not install.
  DOCKER_BUILDKIT=0 docker build --tag "$name" --label "$RECIPE_LABEL=$recipe" \
    --build-arg BASE="$base" "${options[@]}" "$@" "$context"
}

ensure_image() {
  local base=${SANDBOX_HOST_BASE_IMAGE:-} recipe
  recipe=$( (echo "$base $(base_recipe) $SOURCE_DATE_EPOCH" && cd "$RECIPE_DIR" && sha256sum -- *) | hash_of)
  built_from "$IMAGE" "$recipe" && return
  [ -n "$base" ] || ensure_base
  say "building the image $IMAGE (one to three minutes)"
  logged image "the image could not be built: mend what the log says; a package index or \
certificate of yours goes into PIP_INDEX_URL and PIP_CERT." \
    build_from python "$IMAGE" "${base:-$BASE_IMAGE}" "$recipe"
  say "$IMAGE has $(image_size "$IMAGE")"
}
