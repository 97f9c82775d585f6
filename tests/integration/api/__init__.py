# SPDX-License-Identifier: Apache-2.0
"""The API with the services that it runs beside."""
