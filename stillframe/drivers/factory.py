# SPDX-License-Identifier: Apache-2.0
"""Hardware types and interfaces: found, chosen, put together for a node.

Both come by entry point, so that another package can bring more. What is
wrong with the configuration is said when the factory is made: a conductor
that lacks a driver shall not learn it in the middle of the night.
"""

from collections.abc import Mapping
from dataclasses import dataclass
import functools
from importlib import metadata
import threading
from typing import Any
from typing import Self

from oslo_config import cfg

from stillframe import exceptions
from stillframe.drivers import base
from stillframe.drivers import errors
from stillframe.drivers.shared import Shared

TYPES = 'stillframe.hardware.types'
INTERFACES = 'stillframe.hardware.interfaces.'


@dataclass(frozen=True)
class Choice:
    """What a hardware type can have as one kind of interface.

    :ivar enabled: names, in the order of preference.
    :ivar default: the one that a node has which names none.
    """

    enabled: tuple[str, ...]
    default: str


class Factory:
    """All that is enabled here. One a process; close it at the end.

    :param conf: read once.
    :raises ConfigError: something enabled does not exist, cannot be
        loaded, or nothing is left for a kind that each node needs.
    """

    def __init__(self, conf: cfg.ConfigOpts):
        self._conf = conf
        self._shared = Shared(conf)
        self._types: dict[str, base.HardwareType] = {
            name: cls() for name, cls in _load(
                TYPES, conf.drivers.enabled_hardware_types,
                'enabled_hardware_types').items()}
        if not self._types:
            raise _wrong('[drivers]enabled_hardware_types is empty.')
        self._classes: dict[str, dict[str, type[Any]]] = {}
        for kind in base.KINDS:
            self._classes[kind] = self._load_kind(kind)
        self._choices = {
            name: {kind: self._choice(name, kind) for kind in base.KINDS}
            for name in self._types}
        self._lock = threading.Lock()
        self._made: dict[tuple[str, ...], base.Interface] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is open, such as sessions with BMCs."""
        self._shared.close()

    # --- what there is -----------------------------------------------------

    def hardware_types(self) -> Mapping[str, Mapping[str, Choice]]:
        """Give what can be chosen, by hardware type and kind."""
        return self._choices

    def properties(self, driver: str) -> dict[str, str]:
        """Give the help of each key of driver_info, by key.

        :raises DriverNotFound: no such hardware type.
        """
        texts: dict[str, str] = {}
        needed: dict[str, list[str]] = {}
        always = set()
        for kind, choice in self._choices_of(driver).items():
            for name in choice.enabled:
                for one in self._classes[kind][name].properties:
                    texts[one.key] = one.help
                    if one.required:
                        needed.setdefault(one.key, []).append(
                            f'{kind} interface {name}')
                        if len(choice.enabled) == 1:
                            always.add(one.key)
        return {key: _with_need(text, key in always, needed.get(key))
                for key, text in texts.items()}

    def interfaces_for(self, driver: str, wanted: Mapping[str, str | None],
                       ) -> dict[str, str]:
        """Give the interfaces that a node has.

        :param driver: name of its hardware type.
        :param wanted: names by kind; None or absent for the default.
        :raises DriverNotFound: no such hardware type.
        :raises InterfaceNotFound: one of them cannot be had.
        """
        names = {}
        for kind, choice in self._choices_of(driver).items():
            name = wanted.get(kind) or choice.default
            if name not in choice.enabled:
                raise errors.InterfaceNotFound(
                    driver=driver, name=name, kind=kind,
                    usable=', '.join(choice.enabled))
            names[kind] = name
        return names

    # --- for one node ------------------------------------------------------

    def build(self, node: base.Node) -> base.Hardware:
        """Give the interfaces of a node. Cheap; do it for each piece of work.

        :raises DriverNotFound: its hardware type is not enabled (any more).
        :raises InterfaceNotFound: an interface is not.
        """
        names = self.interfaces_for(node['driver'], {
            kind: node[f'{kind}_interface'] for kind in base.KINDS})
        with self._lock:
            management = self._make('management', names['management'])
            return base.Hardware(
                driver=node['driver'], names=names,
                power=self._make('power', names['power']),
                management=management,
                boot=self._make('boot', names['boot'], management,
                                key=names['management']),
                snapshot=self._make('snapshot', names['snapshot']))

    def validate(self, node: base.Node) -> dict[str, str | None]:
        """Check the driver_info of a node for each of its interfaces.

        :return: by kind, what is wrong; None for nothing.
        :raises DriverNotFound: see :meth:`build`.
        :raises InterfaceNotFound: see :meth:`build`.
        """
        hardware = self.build(node)
        found: dict[str, str | None] = {}
        for kind in base.KINDS:
            try:
                hardware.interface(kind).validate(node)
            except errors.DriverError as exc:
                found[kind] = exc.message
            else:
                found[kind] = None
        return found

    # --- below -------------------------------------------------------------

    def _make(self, kind: str, name: str, *further: base.Interface,
              key: str = '') -> Any:
        made = self._made.get((kind, name, key))
        if made is None:
            made = self._classes[kind][name](self._conf, self._shared,
                                             *further)
            self._made[kind, name, key] = made
        return made

    def _choices_of(self, driver: str) -> Mapping[str, Choice]:
        try:
            return self._choices[driver]
        except KeyError:
            raise errors.DriverNotFound(
                driver=driver, enabled=', '.join(self._types)) from None

    def _load_kind(self, kind: str) -> dict[str, type[Any]]:
        option = f'enabled_{kind}_interfaces'
        names = self._conf.drivers[option] or sorted({
            name for one in self._types.values()
            for name in one.supported[kind]})
        classes = _load(INTERFACES + kind, names, option)
        default = self._conf.drivers[f'default_{kind}_interface']
        if default and default not in classes:
            raise _wrong(f'[drivers]default_{kind}_interface names '
                         f'{default}, which [drivers]{option} does not '
                         'enable.')
        return classes

    def _choice(self, driver: str, kind: str) -> Choice:
        supported = self._types[driver].supported[kind]
        enabled = tuple(name for name in supported
                        if name in self._classes[kind])
        if not enabled:
            raise _wrong(f'[drivers]enabled_{kind}_interfaces has none for '
                         f'the hardware type {driver}; it can use '
                         f'{", ".join(supported)}.')
        default = self._conf.drivers[f'default_{kind}_interface']
        return Choice(enabled, default if default in enabled else enabled[0])


def _load(group: str, names: list[str], option: str) -> dict[str, type[Any]]:
    """Load what entry points of a group name.

    :param option: of the group [drivers], for messages.
    """
    points = {point.name: point for point in _installed().select(group=group)}
    classes = {}
    for name in names:
        if name not in points:
            raise _wrong(f'[drivers]{option} names {name}, which is not '
                         f'installed. There is: {", ".join(sorted(points))}.')
        try:
            classes[name] = points[name].load()
        except (ImportError, AttributeError) as exc:
            raise _wrong(f'{name} of [drivers]{option} cannot be loaded: '
                         f'{exc}.') from exc
    return classes


def _with_need(text: str, always: bool, needed: list[str] | None) -> str:
    """Add to the help of a key who needs it."""
    if always:
        return f'{text} Required.'
    return f'{text} Required by the {", ".join(needed)}.' if needed else text


@functools.cache
def _installed() -> Any:
    """Read what all installed packages bring, once."""
    return metadata.entry_points()


def _wrong(reason: str) -> exceptions.ConfigError:
    return exceptions.ConfigError(reason=reason)
