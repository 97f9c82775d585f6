# SPDX-License-Identifier: Apache-2.0
"""Glance as image store, by python-glanceclient.

What Glance says after an upload is compared with what was sent: its size
and its ``os_hash_value``. Only then is the image taken to be complete. An
upload goes through chunked, so one that breaks off is known as such to
Glance and leaves the image ``queued``.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import functools
from typing import Any

from glanceclient import client as glance_client
from glanceclient import exc as glance_exc
from keystoneauth1 import exceptions as auth_exc
from keystoneauth1 import loading
from oslo_config import cfg
import requests

from stillframe.clients import digesting
from stillframe.clients import images

# Answers that say that another try may do better.
_TROUBLE = frozenset((408, 409, 429))
# Answers that say that there is no room, or no quota left.
_FULL = frozenset((413, 507))


def connect(conf: cfg.ConfigOpts) -> 'GlanceStore':
    """Open the store that the configuration names."""
    return GlanceStore(conf)


def _code(exc: glance_exc.HTTPException) -> int:
    """Give the code of an answer for which the client has no class.

    It keeps none then, such as of 410 and 415; the text begins with it.
    """
    begin = (exc.details or '')[:3]
    return int(begin) if begin.isdecimal() else 400


@contextlib.contextmanager
def _told(image_id: str) -> Iterator[None]:
    """Turn the client's errors into those of an image store."""
    try:
        yield
    except glance_exc.HTTPException as exc:
        code = exc.code if isinstance(exc.code, int) else _code(exc)
        if code in (404, 410):
            raise images.ImageGone(image=image_id) from exc
        reason = _first_line(exc.details) or f'HTTP {code}'
        if code in _FULL:
            raise images.ImageStoreFull(
                image=image_id, reason=reason) from exc
        if code >= 500 or code in _TROUBLE:
            raise images.StoreUnavailable(reason=reason) from exc
        raise images.ImageRefused(image=image_id, reason=reason) from exc
    except (glance_exc.BaseException, glance_exc.ClientException,
            auth_exc.ClientException,
            requests.exceptions.RequestException) as exc:
        raise images.StoreUnavailable(
            reason=_first_line(str(exc)) or type(exc).__name__) from exc


@contextlib.contextmanager
def _checked(image_id: str) -> Iterator[None]:
    """Turn what the client itself refuses into an error of ours.

    It checks fields against Glance's schema before it sends them.
    """
    try:
        yield
    except TypeError as exc:
        raise images.ImageRefused(
            image=image_id, reason=_first_line(str(exc))) from exc


def _first_line(text: str | None) -> str:
    lines = (text or '').strip().splitlines()
    return lines[0][:200] if lines else ''


class _Nothing:
    """A file that is empty."""

    def read(self, size: int) -> bytes:
        """Give nothing."""
        return b''


class GlanceStore:
    """Images in Glance; see :class:`stillframe.clients.images.Store`."""

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf

    @functools.cached_property
    def _images(self) -> Any:
        # A connection that Glance had closed meanwhile is no trouble.
        return self._client(connect_retries=2)

    @functools.cached_property
    def _uploads(self) -> Any:
        # Data that was sent in part cannot be sent again from here.
        return self._client(connect_retries=0)

    def _client(self, connect_retries: int,
                timeout: float | None = None) -> Any:
        group = 'glance'
        auth = loading.load_auth_from_conf_options(self._conf, group)
        # The bound on silence is a setting of uploads too.
        session = loading.load_session_from_conf_options(
            self._conf, group, auth=auth,
            timeout=timeout or self._conf.glance.timeout
            or self._conf.images.silence_timeout)
        adapter = loading.load_adapter_from_conf_options(
            self._conf, group, session=session)
        return glance_client.Client(
            '2', session=session, service_type=adapter.service_type,
            service_name=adapter.service_name,
            interface=adapter.interface, region_name=adapter.region_name,
            endpoint_override=adapter.endpoint_override,
            user_agent='stillframe',
            connect_retries=connect_retries).images

    def create(self, record: images.Record) -> None:
        """See the protocol."""
        with _told(record.id), _checked(record.id):
            self._images.create(**dict(
                record.properties, id=record.id, name=record.name,
                owner=record.owner, visibility='private',
                disk_format=record.disk_format, container_format='bare',
                min_disk=record.min_disk))

    def upload(self, image_id: str, source: images.Source, length: int,
               progress: images.Progress) -> images.Stored:
        """See the protocol."""
        passage = digesting.Passage(
            source(), self._conf.glance.hash_algorithm, progress)
        with contextlib.closing(passage), _told(image_id):
            self._uploads.upload(image_id, passage)
        stored = passage.stored()
        if stored.size != length:
            raise images.ImageDamaged(
                image=image_id, reason=f'{stored.size} bytes were sent of '
                f'{length}.')
        self._verify(image_id, stored)
        return stored

    def _verify(self, image_id: str, stored: images.Stored) -> None:
        with _told(image_id):
            image = self._images.get(image_id)
        if image['status'] != 'active' or image['size'] != stored.size:
            raise images.ImageDamaged(
                image=image_id, reason=f'{stored.size} bytes were sent; it '
                f'is {image["status"]} with {image["size"]} bytes.')
        if image.get('os_hash_algo') == stored.algorithm:
            digest = image.get('os_hash_value')
        else:
            digest = self._read_back(image_id, stored.algorithm)
        if digest != stored.digest:
            raise images.ImageDamaged(
                image=image_id, reason=f'its {stored.algorithm} is {digest} '
                f'and not {stored.digest}.')

    def _read_back(self, image_id: str, algorithm: str,
                   check: images.Check = images.unchecked) -> str:
        """Digest what Glance has, where it does not tell our digest."""
        with _told(image_id):
            return digesting.digest(
                self._images.data(image_id, do_checksum=False), algorithm,
                check).digest

    def update(self, image_id: str, properties: Mapping[str, str]) -> None:
        """See the protocol."""
        with _told(image_id), _checked(image_id):
            self._images.update(image_id, **properties)

    def activate_empty(self, image_id: str) -> None:
        """See the protocol.

        An empty upload does it, as for the images that Nova makes of
        servers without a local disk.
        """
        with _told(image_id):
            self._uploads.upload(image_id, _Nothing())

    def status(self, image_id: str) -> str | None:
        """See the protocol."""
        try:
            with _told(image_id):
                return self._images.get(image_id)['status']
        except images.ImageGone:
            return None

    def holds(self, image_id: str, algorithm: str | None = None,
              sizes: range | None = None,
              check: images.Check = images.unchecked
              ) -> images.Stored | None:
        """See the protocol."""
        try:
            with _told(image_id):
                image = self._images.get(image_id)
        except images.ImageGone:
            return None
        if image['status'] != 'active':
            return None
        known, digest = image.get('os_hash_algo'), image.get('os_hash_value')
        if not known or not digest or algorithm not in (None, known):
            known = algorithm or self._conf.glance.hash_algorithm
            digest = ''
            if sizes is None or image['size'] in sizes:
                digest = self._read_back(image_id, known, check)
        return images.Stored(image['size'], known, digest)

    def withdraw(self, image_id: str) -> None:
        """See the protocol."""
        with contextlib.suppress(images.ImageGone), _told(image_id):
            self._images.deactivate(image_id)

    def properties(self, image_id: str, timeout: float) -> dict[str, str]:
        """See the protocol."""
        try:
            with _told(image_id):
                image = self._client(0, timeout).get(image_id)
        except images.ImageGone:
            return {}
        return {key: value for key, value in image.items()
                if isinstance(value, str)}

    def delete(self, image_id: str) -> None:
        """See the protocol."""
        with contextlib.suppress(images.ImageGone), _told(image_id):
            self._images.delete(image_id)
