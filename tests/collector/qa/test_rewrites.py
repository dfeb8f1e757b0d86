"""The same fix in other words: it does the same, and says it differently."""

from __future__ import annotations

from typing import Any

import pytest

from collector.qa.rewrites import rewrites_of
from runner.gate.criterion import ChangedFile

NAMES, BRANCHES, RETURNED = "other names for variables", "branches the other way round", "a name for what is returned"
NEIGHBOURS = "neighbours the other way round"
SHOP = '''\
import math


class Shop:
    rate = 3

    def total(self, prices, *, rate=1):
        """All of it."""
        found = 0
        least = [rate, "no more"]
        for price, number in prices:
            # more than one
            if number > 1:
                found += price * number
            else:
                found += price
        words = [f"{found:.1f} {price}" for price in (1, 2)]
        self.found = dict(found=found)
        return math.floor(found * rate), words, least
'''
OTHERS = {
    "locals are looked up": "def f(x):\n    y = x\n    return locals()['y']\n",
    "a function within": "def f(x):\n    y = x\n\n    def g():\n        return y\n    return g()\n",
    "elif": "def f(x):\n    if x > 1:\n        return 1\n    elif x:\n        return 2\n    else:\n        return 3\n",
    "on one line": "def f(x):\n    if x: return 1\n    else: return 2\n",
    "nested": "def f(x):\n    if x:\n        if x > 1:\n            return 1\n        else:\n            return 2\n"
    "    else:\n        return 0\n",
    "imported": "def f(x):\n    import math\n    y = math.floor(x)\n    return (\n        y\n    )\n",
    "a parameter": "def f(x):\n    x = x + 1\n    z = y = x\n    (a, b), c = (y, z), x\n    return a + b + c, x\n",
    "one rests on the other": "def f(x):\n    y = x\n    z = y\n    y = 2\n    return y, z\n",
    "what is called": "def f(x):\n    y = [3, 4]\n    z = y.pop()\n    w = y.pop()\n    v = y + [z]\n    return w, v\n",
    "nothing returned": "def f(x):\n    y = [x]\n    if not y:\n        return\n    return y\n",
}


def texts(path: str, text: str) -> dict[str, str]:
    file = ChangedFile(path=path, before=b"", after=text.encode())
    return {way.name: way.files[path].decode() for way in rewrites_of([file])}


def ran(text: str, call: str) -> Any:
    space: dict[str, Any] = {}
    exec(text, space)
    return eval(call, space)


def test_every_way_rewrites_and_does_the_same() -> None:
    found = texts("shop.py", SHOP)
    assert set(found) == {NAMES, BRANCHES, RETURNED, NEIGHBOURS}
    assert 'least = [rate, "no more"]\n        found = 0\n' in found[NEIGHBOURS]
    assert "for price_0, number_0 in prices:" in found[NAMES]
    assert "dict(found=found_0)" in found[NAMES]
    assert "self.found = " in found[NAMES]
    assert "if not (number > 1):\n                found += price\n" in found[BRANCHES]
    assert "value_to_return = math.floor(found * rate), words, least\n        return value_to_return" in found[RETURNED]
    call = "Shop().total([(2, 3), (5, 1)], rate=2)"
    for text in found.values():
        assert text != SHOP
        assert ran(text, call) == ran(SHOP, call)


@pytest.mark.parametrize("name", OTHERS)
def test_what_could_tell_the_difference_is_left_alone(name: str) -> None:
    for text in texts("shop.py", OTHERS[name]).values():
        for given in (0, 1, 2):
            assert ran(text, f"f({given})") == ran(OTHERS[name], f"f({given})"), text


def test_javascript_is_rewritten_too() -> None:
    found = texts("a.js", "function f(x) {\n  if (x) {\n    return 1;\n  } else {\n    return 2;\n  }\n}\n")
    assert found[BRANCHES] == "function f(x) {\n  if (!(x)) {\n    return 2;\n  } else {\n    return 1;\n  }\n}\n"
    assert "const value_to_return = 1; return value_to_return;" in found[RETURNED]


def test_neighbours_in_javascript_change_places_where_each_ends_and_runs_nothing() -> None:
    lines = (
        "const a = 1;\n  let b = [x, 'y'];\n  let c = a;\n  let d = x.y;\n  let e = 1\n  let g = 2\n  return [a, b, c]"
    )
    found = texts("a.js", f"function f(x) {{\n  {lines};\n}}\n")
    moved = lines.replace("const a = 1;\n  let b = [x, 'y'];", "let b = [x, 'y'];\n  const a = 1;")
    assert found[NEIGHBOURS] == f"function f(x) {{\n  {moved};\n}}\n"
