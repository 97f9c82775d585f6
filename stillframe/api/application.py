# SPDX-License-Identifier: Apache-2.0
"""pecan's application, without what it works out anew for each request.

pecan walks the attributes of controllers, inspects the signatures of their
methods and negotiates a content type each time: a third of the time that a
short request takes. Our root controller knows the method at once, the
method takes exactly the values in the path, and all that we say is JSON.
"""

from collections.abc import Callable
import json
from typing import Any

from pecan import core
import webob

_encode = json.JSONEncoder().encode


class Application(core.ExplicitPecan):
    """Lets the root controller choose, and writes JSON."""

    def find_controller(self, state: Any
                        ) -> tuple[Callable, list[Any], dict[str, Any]]:
        """Give the method that answers, and its arguments.

        They are the request, the response and the values in the path;
        parameters of the query are never made arguments.
        """
        self.handle_hooks(self.hooks, 'on_route', state)
        controller, values = self.root.choose(state.request)
        state.controller = controller
        return controller, [state.request, state.response, *values], {}

    def invoke_controller(self, controller: Callable, args: list[Any],
                          kwargs: dict[str, Any], state: Any) -> None:
        """Call the method and write what it returns."""
        result = controller(*args)
        if isinstance(result, webob.Response):
            state.response = result
        else:
            state.response.content_type = 'application/json'
            state.response.body = _encode(result).encode('ascii')
