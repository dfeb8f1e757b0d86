"""The full screen's bindings, by the place where they hold: made from the table of actions."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding, BindingType

from repl.actions import ACTIONS, Action


def _binding(action: Action) -> Binding:
    keys = ",".join(key for key in action.keys.split(",") if " " not in key)  # no sequences here
    return Binding(keys, action.does, action.what, show=action.hint, priority=action.first, id=action.id)


KEYS: Final[dict[str, list[BindingType]]] = {
    place: [_binding(action) for action in actions if action.does] for place, actions in ACTIONS.items()
}
KEYS["home"] += [Binding(str(digit), f"row({digit})", "", show=False) for digit in range(1, 10)]
KEYS["trace"] += [Binding(str(digit), f"ask('go to line', '{digit}')", "", show=False) for digit in range(10)]
