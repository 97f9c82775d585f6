# SPDX-License-Identifier: Apache-2.0
"""The compute worker without libvirt: logic, files, simulated guests."""
