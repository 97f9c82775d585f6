# SPDX-License-Identifier: Apache-2.0
"""What ironic-python-agent loads of ours, by its entry points.

Imports that agent, so nothing else of ours may import this.
"""
