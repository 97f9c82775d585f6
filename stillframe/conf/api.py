# SPDX-License-Identifier: Apache-2.0
"""Group [api]: the REST service."""

from oslo_config import cfg

GROUP = 'api'
OPTS = [
    cfg.HostAddressOpt(
        'host', default='127.0.0.1',
        help='Address on which stillframe and stillframe-api listen. Under '
             'another WSGI server this is not read.'),
    cfg.PortOpt(
        'port', default=8774,
        help='Port on which stillframe and stillframe-api listen. 8774 is '
             "Nova's; choose another when both run on one host."),
    cfg.IntOpt(
        'threads', default=8, min=1,
        help='Requests that stillframe and stillframe-api serve at once.'),
    cfg.StrOpt(
        'auth_strategy', default='keystone',
        choices=[
            ('keystone', 'tokens, checked by keystonemiddleware'),
            ('http_basic', 'names and passwords from a file'),
            ('noauth', 'nobody is checked: for a closed machine only'),
        ],
        help='How a caller is known. The embedded default (stillframe) '
             'uses noauth unless told otherwise.'),
    cfg.IntOpt(
        'max_limit', default=1000, min=1,
        help='Most entries in one page of a list.'),
    cfg.StrOpt(
        'link_prefix', default='',
        help='What links begin with (https://compute.example.org), when '
             'the service is behind a proxy that hides its own address. '
             'Empty: the address of the request.'),
    cfg.IntOpt(
        'max_request_body', default=65536, min=1024,
        help='Largest request body in bytes; more is answered with 413.'),
    cfg.IntOpt(
        'cast_retries', default=1, min=0,
        help='How often sending to the message broker is tried again '
             'before a request is given up with 503.'),
    cfg.FloatOpt(
        'service_down_time', default=20.0, min=2.0,
        help='Seconds without a report after which a worker counts as '
             'down, and requests for its servers are refused with 409. At '
             'least three times [compute]report_interval.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)
