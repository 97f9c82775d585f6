#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Install what this repository needs: system packages (named in bindep.txt),
# the virtual environment .venv and, for the integration tests, a second one
# with real OpenStack services, .venv-openstack, and one with the ramdisk's
# ironic-python-agent, .venv-ipa.
#
#   tools/setup.sh base     what `make demo`, lint, unit, functional need
#   tools/setup.sh machine  base, and what `make demo-baremetal` needs
#   tools/setup.sh test     base, and what the integration tests need
#
# Safe to run any number of times; quick when nothing is missing.

set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-base}
case $profile in
    base | machine | test) ;;
    *) echo "usage: $0 [base|machine|test]" >&2; exit 2 ;;
esac

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }


# --- system packages --------------------------------------------------------

# Without bindep (it comes with .venv): the same question, asked of dpkg.
missing_by_dpkg() {
    sed -n 's/ *\[platform:dpkg\(.*\)\]$/\1/p' bindep.txt |
    while read -r name wanted; do
        [ -z "$wanted" ] || [[ " $wanted " == *" $profile "* ]] || continue
        dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null |
            grep -qx installed || echo "$name"
    done
}

# bindep ends with 1 when something is missing, and prints the names.
missing_by_bindep() {
    local names status=0
    local which=()
    [ "$profile" = base ] || which=("$profile")
    names=$(.venv/bin/bindep --brief "${which[@]}") || status=$?
    [ "$status" -le 1 ] || die "bindep cannot read bindep.txt: $names"
    echo "$names"
}

# Who may not write here cannot go on, but can still be told what is missing.
if ! [ -w . ]; then
    missing=$(missing_by_dpkg)
    [ -z "$missing" ] || say "these packages are missing:" $missing
    die "$(id -un) may not write to $PWD: clone the repository as this" \
        "user, or run this as $(stat -c %U .)"
fi

mkdir -p .lab
exec 9>.lab/setup.lock
flock --wait 1200 9 || die "another set-up holds .lab/setup.lock"

# Packages that bring a daemon would start it on its usual port.  We start
# our own, elsewhere, so ask dpkg's scripts to start none meanwhile.  A
# policy that is there already is its owner's: leave it.
policy=/usr/sbin/policy-rc.d
forbid_daemons() {
    [ ! -e $policy ] || return 0
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >&2
}

install_packages() {
    command -v apt-get >/dev/null ||
        die "no apt-get here; these packages are missing:" "$@"
    [ "$(id -u)" = 0 ] ||
        die "run as root once, or install these packages:" "$@"
    say "installing" "$@"
    ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || apt update
    forbid_daemons
    # Old lists name files that are gone from the mirror: try once more
    # with fresh ones.
    apt install --no-install-recommends "$@" || {
        apt update
        apt install --no-install-recommends "$@"
    }
}

need_packages() {
    local names
    names=$("$1")
    # Word splitting is meant: one package a word.
    # shellcheck disable=SC2086
    [ -z "$names" ] || install_packages $names
}

# --- Python -----------------------------------------------------------------

python=$(command -v python3) || die "python3 is missing"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$python is older than Python 3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    need_packages missing_by_dpkg

# What the environments were made from; when it is unchanged, so are they.
fingerprint() {
    { "$python" -VV; echo "$python"; cat "$@"; } | sha256sum | cut -d' ' -f1
}

make_venv() {
    "$1/bin/python" -c '' 2>/dev/null || "$python" -m venv --clear "$1"
}

uv() {
    .venv/bin/uv pip install --quiet "$@"
}

current=$(fingerprint setup.cfg pyproject.toml constraints.txt tools/setup.sh)
if [ "$(cat .venv/.made-from 2>/dev/null)" != "$current" ]; then
    say "making .venv (once; a minute or more)"
    make_venv .venv
    .venv/bin/pip install -qq --disable-pip-version-check \
        --constraint constraints.txt uv bindep
    need_packages missing_by_bindep
    uv --python .venv/bin/python --constraint constraints.txt \
        --editable '.[compute,mysql,postgresql,test]'
    echo "$current" >.venv/.made-from
else
    need_packages missing_by_bindep
fi

[ "$profile" = test ] || exit 0

# --- real OpenStack services, apart: they have pins of their own ------------

current=$(fingerprint constraints-openstack.txt tools/setup.sh)
if [ "$(cat .venv-openstack/.made-from 2>/dev/null)" != "$current" ]; then
    say "making .venv-openstack (once; some minutes)"
    make_venv .venv-openstack
    uv --python .venv-openstack/bin/python \
        --constraint constraints-openstack.txt keystone glance cinder gunicorn
    echo "$current" >.venv-openstack/.made-from
fi

# --- the real agent of a ramdisk, with our extension ------------------------

# Of ours only the entry points and the sources: what else .venv has is not
# in a ramdisk either.
current=$(fingerprint constraints-ipa.txt setup.cfg tools/setup.sh)
if [ "$(cat .venv-ipa/.made-from 2>/dev/null)" != "$current" ]; then
    say "making .venv-ipa"
    make_venv .venv-ipa
    uv --python .venv-ipa/bin/python --constraint constraints-ipa.txt \
        ironic-python-agent
    uv --python .venv-ipa/bin/python --no-deps --editable .
    echo "$current" >.venv-ipa/.made-from
fi
