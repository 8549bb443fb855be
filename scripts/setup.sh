#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of the named groups (default: build) that are missing. Says what it installs;
# touches nothing, network included, when all are there.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "setup: $*" >&2
  exit 1
}

packages_of() {
  awk -v group="$1" '$1 == group { print $2 }' scripts/packages.txt
}

is_installed() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

missing=()
for group in "${@:-build}"; do
  packages=$(packages_of "$group")
  [[ -n "$packages" ]] || fail "no package group named '$group' in scripts/packages.txt"
  command -v dpkg-query >/dev/null ||
    fail "this is no Debian system; install the counterparts of these yourself: ${packages//$'\n'/ }"
  for package in $packages; do
    is_installed "$package" || missing+=("$package")
  done
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || fail "not root and no sudo; as root run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "setup: installing ${#missing[@]} Debian packages with apt-get: ${missing[*]}"
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null
}
apt update || fail "apt-get update failed; is the network there?"
apt install -y --no-install-recommends "${missing[@]}" >/dev/null || fail "apt-get install failed"
for package in "${missing[@]}"; do
  is_installed "$package" || fail "$package is still missing after apt-get install"
done
echo "setup: done"
