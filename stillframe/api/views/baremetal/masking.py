# SPDX-License-Identifier: Apache-2.0
"""Secrets out of what users and drivers put into a node."""

import functools
import re
from typing import Any

#: What stands for a secret.
MASK = '******'

# A key that names a secret, whatever is around it: redfish_password,
# agent_secret_token, snmp_community, image_proxy_password.
_SECRET = re.compile(
    r'passw|passphrase|secret|token|credential|community|private_?key'
    r'|auth_?key|api_?key|configdrive|temp_?url', re.IGNORECASE)
# User and password before the host of a URL.
_USERINFO = re.compile(r'(://)[^/?#@\s]*@')


@functools.lru_cache(maxsize=1024)
def is_secret(key: str) -> bool:
    """Tell whether a key names a secret."""
    return _SECRET.search(key) is not None


def masked(value: Any) -> Any:
    """Give a value without secrets, however deep they are.

    What has none is given as it is, not copied.
    """
    if isinstance(value, dict):
        return {key: MASK if is_secret(key) and one not in (None, '')
                else masked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [masked(one) for one in value]
    if isinstance(value, str) and '@' in value and '://' in value:
        return _USERINFO.sub(rf'\1{MASK}@', value)
    return value
