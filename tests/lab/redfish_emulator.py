# SPDX-License-Identifier: Apache-2.0
"""The emulated BMC's own process: sushy-tools, with two knobs more.

Its fake machines change their power 1 to 11 s after the request, as luck
has it, and always listen to GracefulShutdown. The settings STILLFRAME_*
replace both: POWER_DELAY in whole seconds, and DEAF, a set of UUIDs.
"""

import logging
import os

from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems import fakedriver


class _Delay:
    """Stands in for the module random in the fake driver."""

    @staticmethod
    def randint(_low: int, _high: int) -> int:
        return main.app.config.get("STILLFRAME_POWER_DELAY", 0)


def _set_power_state(self, identity: str, state: str) -> None:
    deaf = main.app.config.get("STILLFRAME_DEAF", ())
    if state != "GracefulShutdown" or self.uuid(identity) not in deaf:
        _as_shipped(self, identity, state)


_as_shipped = fakedriver.FakeDriver.set_power_state

if __name__ == "__main__":
    fakedriver.random = _Delay
    fakedriver.FakeDriver.set_power_state = _set_power_state
    # One line for each request, which tests read.
    logging.basicConfig(level=logging.INFO,
                        format="%(asctime)s %(name)s %(message)s")
    main.app.configure(os.environ["SUSHY_EMULATOR_CONFIG"])
    raise SystemExit(main.main())
