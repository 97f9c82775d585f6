# SPDX-License-Identifier: Apache-2.0
"""An oslo.messaging driver that stays inside one process.

The embedded default runs every service in one process. The library's
``fake`` driver polls each 50 ms; here the sender hands the message to the
server's callback itself, so a call costs well under a millisecond. Payloads
go through JSON both ways, as over a real broker: what is not plain data
fails here as it would there.
"""

from collections.abc import Callable
import itertools
import queue
import threading
from typing import Any

import oslo_messaging
from oslo_messaging._drivers import base
from oslo_serialization import jsonutils


class _Incoming(base.RpcIncomingMessage):
    """One message on its way to a server."""

    def __init__(self, ctxt: dict, message: dict,
                 replies: 'queue.SimpleQueue | None'):
        super().__init__(ctxt, message)
        self._replies = replies

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        if self._replies is not None:
            error = failure[1] if failure else None
            self._replies.put((jsonutils.dumps(reply), error))

    def requeue(self) -> None:
        raise NotImplementedError('RPC messages are never requeued')

    def heartbeat(self) -> None:
        """Nothing to do: the caller can see this process."""


class _Exchange:
    """Who listens to what."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[tuple, list[Callable]] = {}
        self._turn = itertools.count()

    def listen(self, key: tuple, callback: Callable) -> None:
        with self._lock:
            self._listeners.setdefault(key, []).append(callback)

    def forget(self, callback: Callable) -> None:
        with self._lock:
            for callbacks in self._listeners.values():
                if callback in callbacks:
                    callbacks.remove(callback)

    def deliver(self, target: oslo_messaging.Target,
                incoming: _Incoming) -> None:
        """Hand a message to a listener.

        Nothing is kept for one that may come: the sender learns it.

        :raises MessageUndeliverable: nobody listens.
        """
        with self._lock:
            if target.fanout:
                callbacks = [one for (topic, server), several
                             in self._listeners.items()
                             if topic == target.topic and server
                             for one in several]
            else:
                key = (target.topic, target.server)
                several = self._listeners.get(key)
                if not several:
                    raise oslo_messaging.MessageUndeliverable(
                        None, target.exchange, target.topic,
                        incoming.message)
                callbacks = [several[next(self._turn) % len(several)]]
        for callback in callbacks:
            callback([incoming])


class _Listener(base.Listener):
    """Connects a server's callback to the exchange."""

    def __init__(self, exchange: _Exchange, target: oslo_messaging.Target):
        super().__init__(batch_size=1, batch_timeout=None)
        self._exchange = exchange
        self._keys = [(target.topic, None)]
        if target.server:
            self._keys.append((target.topic, target.server))

    def start(self, on_incoming_callback: Callable) -> None:
        super().start(on_incoming_callback)
        for key in self._keys:
            self._exchange.listen(key, on_incoming_callback)

    def stop(self) -> None:
        if self.on_incoming_callback is not None:
            self._exchange.forget(self.on_incoming_callback)
        super().stop()

    def cleanup(self) -> None:
        """Nothing is held beyond what stop gave back."""


class InProcessDriver(base.BaseDriver):
    """Transport URL ``inproc://``: RPC between threads of one process."""

    # One exchange a process, whatever the number of transports: a client
    # and a server may each have opened its own.
    _exchange = _Exchange()

    def require_features(self, requeue: bool = False) -> None:
        if requeue:
            raise NotImplementedError('inproc:// cannot requeue messages')

    def send(self, target: oslo_messaging.Target, ctxt: dict,
             message: dict, wait_for_reply: bool | None = None,
             timeout: float | None = None,
             call_monitor_timeout: float | None = None,
             retry: int | None = None,
             transport_options: Any = None) -> Any:
        replies: queue.SimpleQueue | None = (
            queue.SimpleQueue() if wait_for_reply else None)
        incoming = _Incoming(jsonutils.loads(jsonutils.dumps(ctxt)),
                             jsonutils.loads(jsonutils.dumps(message)),
                             replies)
        self._exchange.deliver(target, incoming)
        if replies is None:
            return None
        try:
            reply, failure = replies.get(timeout=timeout)
        except queue.Empty:
            raise oslo_messaging.MessagingTimeout(
                f'no reply on topic {target.topic} within {timeout} s'
            ) from None
        if failure is not None:
            # As a broker's driver does it: the caller learns the type's
            # name and the text, never the object itself.
            raise oslo_messaging.RemoteError(
                type(failure).__name__, str(failure))
        return jsonutils.loads(reply)

    def send_notification(self, target: oslo_messaging.Target, ctxt: dict,
                          message: dict, version: float,
                          retry: int | None = None) -> None:
        raise NotImplementedError('inproc:// carries RPC only')

    def listen(self, target: oslo_messaging.Target, batch_size: int,
               batch_timeout: float | None) -> _Listener:
        return _Listener(self._exchange, target)

    def listen_for_notifications(self, targets_and_priorities: Any,
                                 pool: Any, batch_size: int,
                                 batch_timeout: float | None) -> None:
        raise NotImplementedError('inproc:// carries RPC only')

    def cleanup(self) -> None:
        """Nothing to close."""
