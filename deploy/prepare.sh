#!/bin/sh
# Installs what a fresh Debian 12 machine lacks for `npm run demo` or `npm test`, says what it installs, and builds.
# usage: sh deploy/prepare.sh demo|test
set -eu
purpose=${1:-demo}
cd "$(dirname "$0")/.."

packages="libbpf1 libzstd1 python3 python3-numpy python3-pandas python3-matplotlib util-linux"
[ "$purpose" = test ] && packages="$packages clang llvm libbpf-dev chromium python3-sklearn python3-pyte python3-prometheus-client docker.io busybox-static bubblewrap socat ripgrep curl systemd"

missing=
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "agentzip: needs these Debian packages:$missing" >&2
    echo "agentzip: run as root, or first: apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  echo "agentzip: installing from Debian:$missing"
  log=$(mktemp)
  if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "agentzip: apt-get failed; install these packages yourself and try again:$missing" >&2
    exit 1
  fi
  rm -f "$log"
fi

if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  echo "agentzip: installing npm packages"
  # Not `npm ci`: it refuses the lock file for an optional package (Windows only) of a dependency of vitest, which the
  # registry does not have.
  npm install --no-audit --no-fund --loglevel=error
fi

echo "agentzip: building"
npm run --silent build
