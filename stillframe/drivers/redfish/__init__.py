# SPDX-License-Identifier: Apache-2.0
"""Machines whose BMC talks Redfish, through sushy.

Each call fetches what it needs anew and looks before it acts, so that it
can be repeated when the BMC did not answer.
"""
