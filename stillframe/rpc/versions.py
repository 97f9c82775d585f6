# SPDX-License-Identifier: Apache-2.0
"""Every RPC method with its history.

A server takes what an older caller of the same major version sends; a
client never sends more than its ``version_cap``.

compute, from API and conductor to the worker of one host:

* 1.0 (casts) ``quiesce_server``, ``unquiesce_server``, ``reset_server``
* 1.0 (call) ``ping``
* 1.1 (cast) ``snapshot_volume``
* 1.2 (cast) ``image_server``

conductor, from compute workers:

* 1.0 (calls) ``report_service``, ``report_servers``, ``report_outcomes``
* 1.1 (calls) ``claim_volume_snapshot``, ``report_volume_snapshot``
* 1.2 (call) ``report_image``

conductor, from the API:

* 1.1 (call) ``start_volume_snapshot``
* 1.3 (cast) ``reach``

baremetal, from the API to the conductor of one host:

* 1.0 (casts) ``do_node_snapshot``, ``do_provisioning_action``,
  ``change_node_power_state``, ``heartbeat``, ``reach``
* 1.0 (calls) ``validate_node``, ``get_boot_device``, ``set_boot_device``
"""

COMPUTE_TOPIC = 'stillframe-compute'
COMPUTE_VERSION = '1.2'

CONDUCTOR_TOPIC = 'stillframe-conductor'
CONDUCTOR_VERSION = '1.3'

BAREMETAL_TOPIC = 'stillframe-baremetal'
BAREMETAL_VERSION = '1.0'
