# The network bridge of the sandbox host, and the firewall rules around it. Sourced by
# scripts/sandbox-host.
# shellcheck shell=bash

readonly BRIDGE=${SANDBOX_HOST_BRIDGE:-runcode0}
readonly ADDRESS=${SANDBOX_HOST_ADDRESS:-10.218.0.1/24}
readonly BRIDGE_OWNER=sandbox-host:$HOST_DIR
readonly FIREWALL_BEFORE=$RUN_STATE.firewall

# ---- the bridge --------------------------------------------------------------------------

# The bridge says by its alias whose it is, so that `down` needs no settings and never takes
# another's.
owner_of() { cat "/sys/class/net/$1/ifalias" 2>/dev/null || true; }

our_bridge() {
  { grep -slxF "$BRIDGE_OWNER" /sys/class/net/*/ifalias || true; } | cut -d/ -f5
}

ensure_bridge() {
  if [ ! -e "/sys/class/net/$BRIDGE" ]; then
    check_address_is_free
    ip link add "$BRIDGE" type bridge
    ip link set "$BRIDGE" alias "$BRIDGE_OWNER"
    ip address add "$ADDRESS" dev "$BRIDGE"
  elif [ "$(owner_of "$BRIDGE")" != "$BRIDGE_OWNER" ]; then
    local owner
    owner=$(owner_of "$BRIDGE")
    die "the network interface $BRIDGE belongs to ${owner:-others}: set SANDBOX_HOST_BRIDGE \
and SANDBOX_HOST_ADDRESS to unused ones."
  fi
  ip link set "$BRIDGE" up
}

check_address_is_free() {
  local routes
  ip -4 route show root "$ADDRESS" &>/dev/null ||
    die "SANDBOX_HOST_ADDRESS is no IPv4 address with a prefix length: $ADDRESS"
  routes=$(ip -4 route show root "$ADDRESS" && ip -4 route show match "$ADDRESS")
  routes=$(sed '/^default/d' <<<"$routes")
  [ -z "$routes" ] || die "the network $ADDRESS is in use ($(head -1 <<<"$routes" | xargs)): \
set SANDBOX_HOST_ADDRESS to an unused one, e.g. 10.219.0.1/24."
}

# ---- the firewall ------------------------------------------------------------------------
# All Docker engines of a machine share chains of one name, and an engine that starts empties
# them, the other's published ports included. So the engine here manages the firewall only
# when it is alone; beside another one, four rules of our own do.

another_engine_runs() { grep -qsx dockerd /proc/[0-9]*/comm; }

# Asked while ours is down: chains that we did not note as ours are another's.
another_engine_filters() {
  iptables -t nat -n -L DOCKER &>/dev/null || return
  [ ! -e "$FIREWALL_BEFORE" ] || another_engine_runs
}

# Further networks of the engine, such as those of a compose project: the upper half of the
# /16 around its own.
pool() { sed -E 's/^([0-9]+\.[0-9]+)\..*/\1.128.0\/17/' <<<"$ADDRESS"; }

# usage: delete_rules TABLE PATTERN
delete_rules() {
  iptables -t "$1" -S 2>/dev/null | sed -nE "/$2/s/^-A/-D/p" | xargs -r -L1 iptables -t "$1"
}

# usage: delete_bridge_rules BRIDGE
delete_bridge_rules() {
  local table
  for table in filter nat raw; do
    delete_rules "$table" "-[io] $1( |\$)"
    delete_rules "$table" "--comment \"?${BRIDGE_OWNER//\//.}\"?( |\$)"
  done
}

add_bridge_rules() {
  delete_bridge_rules "$BRIDGE"
  iptables -t nat -A POSTROUTING -s "$ADDRESS" ! -o "$BRIDGE" -j MASQUERADE
  iptables -I FORWARD -i "$BRIDGE" -j ACCEPT
  iptables -I FORWARD -o "$BRIDGE" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  # Where bridges are filtered, even neighbours in one network need it.
  iptables -I FORWARD -s "$(pool)" -d "$(pool)" -m comment --comment "$BRIDGE_OWNER" -j ACCEPT
}

# The engine makes its chains and changes the policy for forwarded packets: note what to go
# back to.
remember_firewall() {
  [ ! -e "$FIREWALL_BEFORE" ] || return 0
  echo "$(iptables -S FORWARD | sed -n 's/^-P FORWARD //p')" \
    "$(cat /proc/sys/net/ipv4/ip_forward)" >"$FIREWALL_BEFORE"
}

remove_docker_chains() {
  local table chain
  for table in filter nat raw; do
    delete_rules "$table" '-j DOCKER'
    for chain in $(iptables -t "$table" -S | sed -nE 's/^-N (DOCKER.*)/\1/p'); do
      iptables -t "$table" -F "$chain"
      iptables -t "$table" -X "$chain"
    done
  done
}

restore_firewall() {
  [ -e "$FIREWALL_BEFORE" ] || return 0
  another_engine_runs && return
  local policy ip_forward
  read -r policy ip_forward <"$FIREWALL_BEFORE"
  remove_docker_chains
  iptables -P FORWARD "$policy"
  echo "$ip_forward" >/proc/sys/net/ipv4/ip_forward
  rm "$FIREWALL_BEFORE"
}

remove_network() {
  local found
  found=$(our_bridge)
  if [ -n "$found" ]; then
    delete_bridge_rules "$found"
    ip link delete "$found"
  fi
  restore_firewall
}
