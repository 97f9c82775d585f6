# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a driver.

The sentences end up in a node's last_error, which more people may read than
may read its driver_info: no password, token, address or path is in them.
What was seen on the wire goes to the log of whoever raises, scrubbed.
"""

from stillframe.exceptions import StillframeError


class DriverError(StillframeError):
    """Base of the errors of drivers.

    :cvar transient: whether the same call may succeed a little later
        without anybody changing anything.
    """

    template = 'The driver of node {node} failed: {reason}'
    code = 'stillframe.driver'
    transient = False


class DriverNotFound(DriverError):
    """No enabled hardware type has that name."""

    template = ('There is no hardware type {driver} here. Enabled are: '
                '{enabled}.')
    http_status = 404
    code = 'stillframe.driver_not_found'


class InterfaceNotFound(DriverError):
    """The interface is not enabled, or the hardware type cannot have it."""

    template = ('The hardware type {driver} cannot use {name} as its '
                '{kind} interface. It can use: {usable}.')
    http_status = 400
    code = 'stillframe.driver_interface_not_found'


class UnsupportedInterface(DriverError):
    """The node has no such interface."""

    template = ('Node {node} has no {kind} interface (it is set to '
                '{name}), so it cannot {action}. Set {kind}_interface to '
                'another one that its hardware type has.')
    http_status = 400
    code = 'stillframe.driver_interface_unsupported'


class MissingDriverInfo(DriverError):
    """Something that has to be in driver_info is not there."""

    template = 'driver_info of node {node} lacks {keys}: {help}'
    http_status = 400
    code = 'stillframe.driver_info_missing'


class InvalidDriverInfo(DriverError):
    """Something in driver_info cannot be used."""

    template = 'driver_info {key} of node {node} cannot be used: {reason}'
    http_status = 400
    code = 'stillframe.driver_info_invalid'


class NowhereToReport(DriverError):
    """The configuration does not say where ramdisks are to report to."""

    template = ('The ramdisk of node {node} could not be told where to '
                'report to: [baremetal]agent_api_url is not set. Set it for '
                'the conductors and the API.')
    code = 'stillframe.driver_agent_api_url_missing'


class UnsupportedRequest(DriverError):
    """The machine, or its driver, has no such function."""

    template = 'Node {node} cannot {what}: {reason}'
    http_status = 400
    code = 'stillframe.driver_unsupported'


class PowerStateNotReached(DriverError):
    """The machine took the request, and did not do it in time."""

    template = ('Node {node} did not reach "{target}" within {timeout:g} s; '
                'it is "{state}".')
    code = 'stillframe.power_state_not_reached'


class BMCError(DriverError):
    """Base of what goes wrong between us and a BMC."""


class BMCUnreachable(BMCError):
    """The BMC did not answer, or not in time."""

    template = ('The BMC of node {node} does not answer ({reason}). Check '
                'the address in driver_info and the network between.')
    code = 'stillframe.bmc_unreachable'
    transient = True


class BMCNotTrusted(BMCError):
    """The BMC's certificate is not one that driver_info trusts."""

    template = ('The certificate of the BMC of node {node} is not trusted '
                '({reason}). See redfish_verify_ca in driver_info.')
    code = 'stillframe.bmc_not_trusted'


class BMCDenied(BMCError):
    """The BMC refused the credentials."""

    template = ('The BMC of node {node} refused the user or password in '
                'driver_info, or that user may not do this.')
    code = 'stillframe.bmc_denied'


class BMCRefused(BMCError):
    """The BMC understood and said no."""

    template = ('The BMC of node {node} refused to {what} (HTTP {status}). '
                "The conductor's log has its words.")
    code = 'stillframe.bmc_refused'


class BMCFault(BMCRefused):
    """The BMC said that it failed by itself (HTTP 5xx)."""

    template = ('The BMC of node {node} failed when asked to {what} (HTTP '
                "{status}). The conductor's log has its words.")
    code = 'stillframe.bmc_fault'
    transient = True


class BMCUnintelligible(BMCError):
    """What answered does not talk Redfish as it should."""

    template = ('What answers as the BMC of node {node} makes no sense '
                '({reason}). Is the address in driver_info a Redfish '
                'service?')
    code = 'stillframe.bmc_unintelligible'


class AgentError(DriverError):
    """Base of what goes wrong between us and the agent in a ramdisk."""


class AgentNotKnown(AgentError):
    """The agent has not sent a heartbeat since the node was booted."""

    template = ('The agent on node {node} has not reported yet, so nothing '
                'can be asked of it.')
    code = 'stillframe.agent_not_known'
    transient = True


class AgentUnreachable(AgentError):
    """The agent did not answer, or not in time."""

    template = ('The agent on node {node} does not answer ({reason}). Can '
                'the conductor reach the network that the ramdisk is on?')
    code = 'stillframe.agent_unreachable'
    transient = True


class AgentNotGenuine(AgentError):
    """Who answered has another certificate than the agent reported."""

    template = ('What answers at the address of the agent on node {node} '
                'has another certificate than the agent reported, so '
                'nothing was sent to it.')
    code = 'stillframe.agent_not_genuine'


class AgentDenied(AgentError):
    """The agent refused our token."""

    template = ('The agent on node {node} refused its token; it was '
                'probably started anew. Take the snapshot again.')
    code = 'stillframe.agent_denied'


class AgentBusy(AgentError):
    """The agent is doing something else; it does one thing at a time."""

    template = ('The agent on node {node} is busy with another command '
                '({command}).')
    code = 'stillframe.agent_busy'
    transient = True


class AgentRefused(AgentError):
    """The agent understood and said no."""

    template = ('The agent on node {node} refused {command} (HTTP '
                '{status}): {reason}')
    code = 'stillframe.agent_refused'


class AgentUnintelligible(AgentError):
    """What answered does not talk as an agent does."""

    template = ('What answers as the agent on node {node} makes no sense '
                '({reason}).')
    code = 'stillframe.agent_unintelligible'
