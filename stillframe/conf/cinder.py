# SPDX-License-Identifier: Apache-2.0
"""Group [cinder]: how to tell Cinder what became of a snapshot, as whom.

Read by the conductor. The credentials need the right to update the status
of any project's snapshots (by default the role ``admin``).
"""

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'cinder'
_OWN = [
    cfg.StrOpt(
        'status_form', default='auto', choices=[
            ('auto', 'try "spec", fall back to "stock", remember it'),
            ('spec', 'the statuses creating_compute_complete and '
             'deleting_compute_complete, with file_format'),
            ('stock', 'the statuses creating and deleting, without '
             'file_format'),
        ],
        help='The form of the status update that Cinder takes. Stock Cinder '
             'refuses that of the specification. With "auto" it is found '
             'out with the first update for each endpoint and kept in the '
             'database.'),
    cfg.BoolOpt(
        'send_service_token', default=True,
        help='Send the token also as service token, so that Cinder sees '
             'that a service asks. Not with auth_type none or noauth.'),
    cfg.FloatOpt(
        'retry_wait', default=1.0, min=0.1,
        help='Seconds before Cinder is told again when it could not be '
             'reached; doubled each time.'),
    cfg.FloatOpt(
        'retry_wait_max', default=60.0, min=0.1,
        help='The longest wait in seconds before Cinder is told again.'),
    cfg.FloatOpt(
        'give_up_after', default=86400.0, min=1.0,
        help='Seconds for which Cinder is told an outcome in vain, counted as '
             'the waits between tries. What Cinder never took stays in the '
             'database. Cinder itself waits 600 s for a new snapshot and '
             '7200 s for a deleted one; one that it gave up while it could '
             'not be told is found out when it can be.'),
]
_SESSION = loading.get_session_conf_options()
_ADAPTER = loading.get_adapter_conf_options(include_deprecated=False)
for _option in (*_SESSION, *_ADAPTER):
    if _option.dest == 'timeout':
        # Without a bound, a Cinder that hangs would hold back the outcomes
        # of all others.
        _option.default = 10
    elif _option.dest == 'service_type':
        _option.default = 'volumev3'
OPTS = (_OWN + loading.get_auth_common_conf_options() + _SESSION + _ADAPTER
        + loading.get_auth_plugin_conf_options('v3password'))


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(_OWN + _SESSION + _ADAPTER, group=GROUP)
    loading.register_auth_conf_options(conf, GROUP)
