#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Write constraints.txt, constraints-openstack.txt and constraints-ipa.txt
# anew: the newest versions that satisfy setup.cfg, resolved in a throw-away
# environment.

set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

pin() {
    local into=$1
    shift
    python3 -m venv "$scratch/venv" --clear
    "$scratch/venv/bin/pip" install -qq uv
    "$scratch/venv/bin/uv" pip install --quiet \
        --python "$scratch/venv/bin/python" "$@"
    "$scratch/venv/bin/uv" pip freeze --quiet --exclude-editable \
        --python "$scratch/venv/bin/python" >"$scratch/pins"
    mv "$scratch/pins" "$into"
    echo "$into: $(wc -l <"$into") packages"
}

pin constraints.txt uv bindep \
    --editable '.[compute,mysql,postgresql,test]'
pin constraints-openstack.txt keystone glance cinder gunicorn
pin constraints-ipa.txt ironic-python-agent
