"""The running app by its own type, for screens and widgets that only know Textual's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.dom import DOMNode

from tracer.errors import InternalError

if TYPE_CHECKING:
    from repl.screen.app import PmApp


def own_app(node: DOMNode) -> PmApp:
    """The app that `node` is mounted in.

    Raises:
        InternalError: it is mounted in another app.

    """
    from repl.screen.app import PmApp  # the app imports the screens: at run time only

    app = node.app
    if not isinstance(app, PmApp):
        raise InternalError(f"{type(node).__name__} runs in {type(app).__name__}")
    return app
