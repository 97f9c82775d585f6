# SPDX-License-Identifier: Apache-2.0
"""Who asks: the context of a request, through API, RPC and worker."""

from oslo_context import context


class RequestContext(context.RequestContext):
    """A request's identity and id; plain data when it travels."""

    @classmethod
    def from_dict(cls, values, **kwargs):
        """Build a context from what :meth:`to_dict` gave.

        Keys that a newer sender added are left out, so that a receiver
        one version behind works.
        """
        return super().from_dict(values, **kwargs)


def system_context(request_id: str | None = None) -> RequestContext:
    """Give the context of work that no user asked for.

    :param request_id: ``req-<uuid>``; made when None.
    """
    return RequestContext(is_admin=True, request_id=request_id,
                          overwrite=False)
