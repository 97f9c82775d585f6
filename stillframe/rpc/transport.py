# SPDX-License-Identifier: Apache-2.0
"""The one place that opens the message transport.

Clients and servers get theirs from here, so that time-outs, the executor
and the serialiser are the same everywhere.
"""

import threading
from typing import Any

import amqp.exceptions
import kombu.exceptions
from oslo_config import cfg
import oslo_messaging
from oslo_messaging.rpc import dispatcher
from oslo_messaging.rpc import server as rpc_server

from stillframe import context
from stillframe import exceptions

#: What sending raises when the broker is away, or nobody answers. Most of
#: it is oslo.messaging's own, but where the first connection of a thread
#: cannot be made, the error of the layer below comes through.
TROUBLE = (oslo_messaging.MessagingException,
           oslo_messaging.MessageUndeliverable, kombu.exceptions.KombuError,
           amqp.exceptions.AMQPError, OSError)

_lock = threading.Lock()
_transport: oslo_messaging.Transport | None = None


class ContextSerializer(oslo_messaging.JsonPayloadSerializer):
    """Carries the request context; payloads are plain data already."""

    def serialize_context(self, ctxt: context.RequestContext) -> dict:
        return ctxt.to_dict()

    def deserialize_context(self, ctxt: dict) -> context.RequestContext:
        return context.RequestContext.from_dict(ctxt)


def get_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Give this process's transport, opened at the first call.

    :raises oslo_messaging.exceptions.InvalidTransportURL: on a bad URL.
    """
    global _transport
    with _lock:
        if _transport is None:
            _transport = oslo_messaging.get_rpc_transport(conf)
        return _transport


def is_in_process(conf: cfg.ConfigOpts) -> bool:
    """Tell whether messages stay in this process, and end with it."""
    url = oslo_messaging.TransportURL.parse(conf)
    return url.transport == 'inproc'


def cleanup() -> None:
    """Close the transport; the next use opens it anew."""
    global _transport
    with _lock:
        if _transport is not None:
            _transport.cleanup()
            _transport = None


def get_client(conf: cfg.ConfigOpts, topic: str,
               version_cap: str) -> Any:
    """Give an RPC client.

    A message that no server has a queue for is refused, not dropped: after
    a broker lost its queues, a request fails at once instead of holding
    its server until somebody gives it up.

    :param topic: whom to talk to; see :mod:`stillframe.rpc.versions`.
    :param version_cap: the newest version that this side may send.
    """
    return oslo_messaging.get_rpc_client(
        get_transport(conf),
        oslo_messaging.Target(topic=topic, version=version_cap),
        version_cap=version_cap, serializer=ContextSerializer(),
        transport_options=oslo_messaging.TransportOptions(
            at_least_once=True))


def cast(client: Any, ctxt: context.RequestContext, method: str,
         whom: str, what: str, **kwargs: Any) -> None:
    """Hand something over; nobody answers.

    :param client: prepared: to which server, with how many tries.
    :param whom: the other side, as the beginning of a sentence.
    :param what: what is lost when it fails, for the same sentence.
    :raises ServiceUnavailable: it was not handed over.
    """
    try:
        client.cast(ctxt, method, **kwargs)
    except oslo_messaging.MessageUndeliverable as exc:
        raise exceptions.ServiceUnavailable(service=whom, what=what) from exc
    except TROUBLE as exc:
        raise exceptions.ServiceUnavailable(
            service='The message broker', what=what) from exc


def reach(client: Any, ctxt: context.RequestContext, whom: str,
          what: str) -> None:
    """See that the other side can be reached; to be done before a call.

    The first call of a process opens a connection for answers, for which
    the library waits without an end, whatever time-out was given. Where a
    cast comes through, there is a broker. Arguments and errors are those of
    :func:`cast`.
    """
    cast(client, ctxt, 'reach', whom, what)


def get_server(conf: cfg.ConfigOpts, topic: str, host: str,
               endpoints: list) -> rpc_server.RPCServer:
    """Give an RPC server; the caller starts, stops and waits for it."""
    return oslo_messaging.get_rpc_server(
        get_transport(conf),
        oslo_messaging.Target(topic=topic, server=host),
        endpoints, executor='threading',
        serializer=ContextSerializer(),
        access_policy=dispatcher.DefaultRPCAccessPolicy)
