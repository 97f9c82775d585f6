# SPDX-License-Identifier: Apache-2.0
"""``python -m stillframe.agent``: the agent that stands alone."""

import sys

from stillframe.agent import cli

if __name__ == '__main__':
    sys.exit(cli.main())
