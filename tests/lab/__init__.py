# SPDX-License-Identifier: Apache-2.0
"""A laboratory of real things: hypervisors, guests, brokers, databases.

The integration tests, the demonstration and the benchmark share it.  All
that it starts listens on 127.0.0.1 or on UNIX sockets, keeps its files in
a fresh directory, and ends when the process that started it ends, however
that comes about (see tests.lab.keeper).
"""
