"""Passes that a session made itself, by pytest's own means or past them: whichever way, none is proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.qa.pipeline import run_qa
from collector.qa.sandbox.choose import SandboxChooser
from tests.collector.qa.rigs import a_collector, a_repository, quick_settings, send_session
from tests.support.containers import container_engine

pytestmark = [pytest.mark.container, pytest.mark.torture, pytest.mark.timeout(300)]

BASE = {
    "calc.py": "def half(x):\n    return x / 3\n",
    "tests/test_calc.py": "def test_zero():\n    assert True\n",
}
TEST = "from calc import half\n\n\ndef test_half():\n    assert half(6) == 3\n"
STILL_WRONG = "\n\ndef half(x):\n    return x / 3\n"
REPORT = "<testsuites><testsuite><testcase classname='tests.test_calc' name='test_half'/></testsuite></testsuites>"
TURNING = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    said = yield\n    said.get_result().outcome = 'passed'\n"
)
TO_THE_REPORT = f"""for word in sys.argv:
    if 'xml' in word:
        open(word.partition('=')[2], 'w').write({REPORT!r})
os._exit(0)
"""
AT_THE_END = (
    f"import atexit\nimport os\nimport sys\n\n\ndef end():\n    {TO_THE_REPORT.replace(chr(10), chr(10) + '    ')}"
)
END = "import os\n\nos._exit(0)\n"
WAYS: dict[str, dict[str, str | None]] = {
    "a plug-in of the project": {"conftest.py": TURNING},
    "a plug-in of the tests": {"tests/conftest.py": TURNING},
    "collect only": {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "a plug-in in setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = -p plug\n", "plug.py": TURNING},
    "a plug-in in pyproject": {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p plug'\n", "plug.py": TURNING
    },
    "deselected": {"tox.ini": "[pytest]\naddopts = --deselect tests/test_calc.py::test_half\n"},
    "sitecustomize": {"sitecustomize.py": END},
    "usercustomize": {"usercustomize.py": END},
    "a module in pytest's place": {"pytest.py": "raise SystemExit(0)\n"},
    "a package below pytest": {"_pytest/__init__.py": "raise SystemExit(0)\n"},
    "an end at import": {"calc.py": END},
    "a report and an end": {"calc.py": f"import os\nimport sys\n\n{TO_THE_REPORT}"},
    "a report at the end": {"calc.py": f"{AT_THE_END}\n\natexit.register(end)\n{STILL_WRONG}"},
    "a report that was brought along": {".pm-report/junit.xml": REPORT, "calc.py": END},
    "equal to everything": {
        "calc.py": "class Any(float):\n    def __eq__(self, other):\n        return True\n\n\n"
        "def half(x):\n    return Any(x / 3)\n"
    },
    "equal to everything by a name": {
        "calc.py": "class Any(float):\n    __eq__ = lambda self, other: not None\n\n\n"
        "def half(x):\n    return Any(x / 3)\n"
    },
    "a value of the library that is equal to everything": {
        "calc.py": "from unittest import mock\n\n\ndef half(x):\n    return mock.ANY\n"
    },
    "the calls of tests are replaced": {
        "calc.py": "import gc\n\nfor one in gc.get_objects():\n"
        "    if getattr(one, '__name__', '') == 'pytest_runtest_call':\n"
        "        one.__code__ = (lambda item: None).__code__\n"
        + STILL_WRONG
    },
    "the runner is loaded": {
        "calc.py": "import sys\n\n\ndef half(x):\n    return x / (2 if 'pytest' in sys.modules else 3)\n"
    },
    "the runner's variable": {
        "calc.py": "import os\n\n\ndef half(x):\n    return x / (2 if 'PYTEST_CURRENT_TEST' in os.environ else 3)\n"
    },
    "the runner is patched": {
        "calc.py": f"import _pytest.runner\n\n_pytest.runner.pytest_runtest_call = lambda item: None\n{STILL_WRONG}"
    },
    "the caller's file": {
        "calc.py": "import sys\n\n\ndef half(x):\n"
        "    return x / (2 if 'test' in sys._getframe(1).f_code.co_filename else 3)\n"
    },
    "a test that says yes": {"tests/test_calc.py": "def test_half():\n    assert True\n"},
    "a test that is skipped": {
        "tests/test_calc.py": "import pytest\n\n\ndef test_half():\n    pytest.skip('not now')\n"
    },
    "a test that may fail": {
        "tests/test_calc.py": TEST.replace("\n\n\ndef", "\nimport pytest\n\n\n@pytest.mark.xfail\ndef")
    },
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_a_forged_pass_is_not_proven(tmp_path: Path, way: str) -> None:
    repository = a_repository(tmp_path, base=BASE, head={"tests/test_calc.py": TEST, **WAYS[way]})
    async with a_collector(tmp_path) as collector:
        trace_id = await send_session(
            collector, repository, profile={"runner": "pytest", "command": "python -m pytest -q"}
        )
        qa = await run_qa(
            trace_id,
            collector=collector,
            settings=quick_settings(tmp_path),
            judge=None,
            sandbox=SandboxChooser(container_engine()),
        )
    assert qa.tests is not None
    assert qa.tests.detail.get("proof", {}).get("verdict") != "proven"  # type: ignore[union-attr]
    assert qa.tests.not_testable in {None, "no_tests"}
