"""Passes that a session made itself, in other languages than Python and past builds: none is proven, each fix is.

With the machine's own programs: the container's image of the tests holds Python alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.qa.pipeline import run_qa
from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from tests.collector.qa.rigs import a_collector, a_repository, quick_settings, send_session
from tests.collector.qa.test_forged import REPORT as PYTHON_REPORT
from tests.support.tools import need_program


class Kind(NamedTuple):
    """One way to test: the program that it needs, its profile, the base, what a fix brings, and how it mends."""

    program: str
    profile: Mapping[str, Any]
    base: Mapping[str, str]
    tests: Mapping[str, str]
    fix: Mapping[str, str]


def by(command: str, **more: Any) -> dict[str, Any]:
    return {"runner": "custom", "command": command, **more}


NODE = {"package.json": '{"scripts": {"test": "node --test"}}\n', "calc.js": "exports.half = (x) => x / 3;\n"}
NODE_TEST = {
    "tests/half.test.js": """const assert = require("node:assert");
const test = require("node:test");
const { half } = require("../calc.js");
test("half", () => assert.equal(half(6), 3));
"""
}
NODE_FIX = {"calc.js": "exports.half = (x) => x / 2;\n"}
GO = {"go.mod": "module calc\n\ngo 1.19\n", "calc.go": "package calc\n\nfunc Half(x int) int { return x / 3 }\n"}
GO_TEST = {
    "calc_test.go": """package calc

import "testing"

func TestHalf(t *testing.T) {
	if Half(6) != 3 {
		t.Fail()
	}
}
"""
}
RUST = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
    "src/lib.rs": "pub fn half(x: i32) -> i32 { x / 3 }\n",
}
RUST_TEST = {"tests/half.rs": "use calc::*;\n\n#[test]\nfn halves() {\n    assert_eq!(half(6), 3);\n}\n"}
RUBY = {"lib/calc.rb": "def half(x)\n  x / 3\nend\n"}
RUBY_TEST = {
    "test/half_test.rb": """require "minitest/autorun"
require_relative "../lib/calc"

class HalfTest < Minitest::Test
  def test_half
    assert_equal 3, half(6)
  end
end
"""
}
SPEC = {
    "spec/half_spec.rb": """require_relative "../lib/calc"

describe "calc" do
  it "halves" do
    expect(half(6)).to eq(3)
  end
end
"""
}
PHP = {"src/calc.php": "<?php\nfunction half($x) { return $x / 3; }\n"}
PHP_TEST = {
    "tests/HalfTest.php": """<?php
use PHPUnit\\Framework\\TestCase;
require_once __DIR__ . "/../src/calc.php";

final class HalfTest extends TestCase
{
    public function testHalf(): void
    {
        $this->assertEquals(3, half(6));
    }
}
"""
}
C = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(calc C)\nenable_testing()\n"
    "add_executable(half tests/half.c calc.c)\nadd_test(NAME half COMMAND half)\n",
    "calc.c": "int half(int x) { return x / 3; }\n",
    "tests/half.c": "int half(int x);\n\nint main(void)\n{\n    return 0;\n}\n",
}
C_TEST = {"tests/half.c": "#include <assert.h>\nint half(int x);\n\nint main(void)\n{\n"
          "    assert(half(6) == 3);\n    return 0;\n}\n"}  # fmt: skip
PYTHON = {
    "calc.py": "def half(x):\n    return x / 3\n",
    "setup.py": "",
    "tests/test_calc.py": "def test_zero():\n    assert True\n",
}
PYTHON_TEST = {"tests/test_calc.py": "from calc import half\n\n\ndef test_half():\n    assert half(6) == 3\n"}
PYTHON_FIX = {"calc.py": "def half(x):\n    return x / 2\n"}
PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q"  # ours take a second to load

KINDS: dict[str, Kind] = {
    "node of a folder": Kind("node", by("node --test tests/"), NODE, NODE_TEST, NODE_FIX),
    "npm": Kind("npm", by("npm test"), NODE, NODE_TEST, NODE_FIX),
    "Go": Kind("go", by("go test ./..."), GO, GO_TEST, {"calc.go": GO["calc.go"].replace("/ 3", "/ 2")}),
    "Rust": Kind("cargo", by("cargo test --offline"), RUST, RUST_TEST,
                 {"src/lib.rs": RUST["src/lib.rs"].replace("/ 3", "/ 2")}),
    "minitest": Kind("ruby", by("ruby test/half_test.rb"), RUBY, RUBY_TEST,
                     {"lib/calc.rb": RUBY["lib/calc.rb"].replace("/ 3", "/ 2")}),
    "RSpec": Kind("rspec", by("rspec"), RUBY, SPEC, {"lib/calc.rb": RUBY["lib/calc.rb"].replace("/ 3", "/ 2")}),
    "PHPUnit": Kind("phpunit", by("phpunit tests"), PHP, PHP_TEST,
                    {"src/calc.php": PHP["src/calc.php"].replace("/ 3", "/ 2")}),
    "ctest": Kind("ctest", by("ctest --test-dir build", build=["cmake -S . -B build", "cmake --build build"]),
                  C, C_TEST, {"calc.c": C["calc.c"].replace("/ 3", "/ 2")}),
    "make": Kind("make", by("make check"), {**C, "Makefile": "check:\n\tcc -o half tests/half.c calc.c\n\t./half\n"},
                 C_TEST, {"calc.c": C["calc.c"].replace("/ 3", "/ 2")}),
    "Python, built": Kind("python3", by(PYTEST, build=["python setup.py build"]), PYTHON, PYTHON_TEST, PYTHON_FIX),
    "Python, one test": Kind("python3", by(f"{PYTEST} tests/test_calc.py -k half"), PYTHON, PYTHON_TEST, PYTHON_FIX),
    "Python, a test that was there": Kind("python3", by(PYTEST), {**PYTHON, **PYTHON_TEST}, {}, PYTHON_FIX),
    "unittest": Kind("python3", by("python -m unittest discover -s tests -t ."),
                     {**PYTHON, "tests/__init__.py": ""},
                     {"tests/test_calc.py": "import unittest\n\nfrom calc import half\n\n\nclass TestCalc("
                      "unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(half(6), 3)\n"},
                     PYTHON_FIX),
}  # fmt: skip

NO_CHECKS = """const checks = require("assert");
for (const name of Object.keys(checks)) if (typeof checks[name] === "function") checks[name] = () => {};
"""
GO_SAYS = 'fmt.Println("=== RUN   TestHalf\\n--- PASS: TestHalf (0.00s)\\nPASS")\n\tos.Exit(0)'
GO_HEAD = 'package calc\n\nimport (\n\t"fmt"\n\t"os"\n)\n\n'
RUST_SAYS = r"""fn said() {
    use std::io::Write;
    let text = "test halves ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
    std::process::exit(0);
}
"""
RUBY_SAYS = (
    'puts "HalfTest#test_half = 0.00 s = .", "1 runs, 1 assertions, 0 failures, 0 errors, 0 skips"\n$stdout.flush\n'
    "exit! 0\n"
)
RSPEC_SAYS = """require "json"
out = Process.argv0 && File.read("/proc/self/cmdline").split("\\0").last
File.write(out, JSON.dump({examples: [{file_path: "./spec/half_spec.rb", full_description: "calc halves",
                                       status: "passed"}], summary: {}}))
exit! 0
"""
PHP_SAYS = """
$at = array_search("--log-junit", $_SERVER["argv"]);
file_put_contents($_SERVER["argv"][$at + 1],
  "<testsuites><testsuite><testcase name='testHalf' class='HalfTest' classname='HalfTest'/></testsuite></testsuites>");
exit(0);
"""
PHP_WRONG = PHP["src/calc.php"].removeprefix("<?php\n")
PYTHON_SAYS = f"""import atexit
import os
import sys


def end():
    for word in sys.argv:
        if "xml" in word:
            open(word.partition("=")[2], "w").write({PYTHON_REPORT!r})
    os._exit(0)


atexit.register(end)
"""
REWRITTEN = 'open("tests/test_calc.py", "w").write("def test_half():\\n    assert True\\n")\n'

WAYS: dict[str, dict[str, Mapping[str, str]]] = {
    "node of a folder": {
        "checks that check nothing": {"calc.js": NO_CHECKS + NODE["calc.js"]},
        "an end at import": {"calc.js": "process.exit(0);\n"},
        "a test of the product's own, and an end": {
            "calc.js": 'const test = require("node:test");\ntest("half", () => {});\n'
            "exports.half = () => {};\nsetImmediate(() => process.exit(0));\n"
        },
    },
    "npm": {
        "checks that check nothing": {"calc.js": NO_CHECKS + NODE["calc.js"]},
        "options of Node.js": {
            "package.json": '{"scripts": {"test": "NODE_OPTIONS=--require=./plug.js node --test"}}\n',
            ".npmrc": "node-options=--require=./plug.js\n", "plug.js": NO_CHECKS,
        },
    },
    "Go": {
        "a report and an end": {"calc.go": f"{GO_HEAD}func init() {{\n\t{GO_SAYS}\n}}\n\n"
                                "func Half(x int) int { return x / 3 }\n"},
        "a report and an end in the function": {
            "calc.go": f"{GO_HEAD}func Half(x int) int {{\n\t{GO_SAYS}\n\treturn x\n}}\n"
        },
        "an end that is begun elsewhere": {
            "calc.go": f"{GO_HEAD}func Half(x int) int {{\n\tgo func() {{\n\t{GO_SAYS}\n\t}}()\n\tselect {{}}\n}}\n"
        },
    },
    "Rust": {
        "an end before main": {
            "src/lib.rs": RUST_SAYS + '#[used]\n#[link_section = ".init_array"]\nstatic FIRST: fn() = said;\n'
            "pub fn half(x: i32) -> i32 { x / 3 }\n"
        },
        "a report and an end in the function": {
            "src/lib.rs": RUST_SAYS + "pub fn half(x: i32) -> i32 { said(); x }\n"
        },
        "tests that are written by the build": {
            "build.rs": 'fn main() {\n    let _ = std::fs::write("tests/half.rs", "#[test]\\nfn halves() {}\\n");\n}\n'
        },
        "checks that check nothing": {
            "src/lib.rs": "#[macro_export]\nmacro_rules! assert_eq { ($($any:tt)*) => {}; }\n"
            "pub fn half(x: i32) -> i32 { x / 3 }\n"
        },
        "a panic that ends well": {
            "src/lib.rs": RUST_SAYS + "pub fn half(x: i32) -> i32 {\n"
            "    std::panic::set_hook(Box::new(|_| said()));\n    x / 3\n}\n"
        },
        "a runner of one's own": {
            ".cargo/config.toml": '[target.x86_64-unknown-linux-gnu]\nrunner = ["sh", "runner.sh"]\n',
            "runner.sh": 'echo "test halves ... ok"; echo; echo "test result: ok. 1 passed; 0 failed; 0 ignored"\n',
        },
        "a program in the tests' place": {
            "Cargo.toml": RUST["Cargo.toml"] + '[[test]]\nname = "half"\npath = "src/said.rs"\n',
            "src/said.rs": "#[test]\nfn halves() {}\n",
        },
    },
    "minitest": {
        "a report and an end": {"lib/calc.rb": RUBY_SAYS},
        "a report and an end in the function": {"lib/calc.rb": f"def half(x)\n{RUBY_SAYS}end\n"},
        "a report at the end": {"lib/calc.rb": f"{RUBY['lib/calc.rb']}\nat_exit do\n{RUBY_SAYS}end\n"},
        "checks that check nothing": {
            "lib/calc.rb": 'Object.const_get("Mini" + "test")::Test.prepend(Module.new { def assert_equal(*) = 1 })\n'
            + RUBY["lib/calc.rb"]
        },
        "a runner that runs nothing": {
            "lib/calc.rb": 'Object.const_get("Mini" + "test")::Test.prepend(Module.new { def run = super.tap { |r| '
            "r.failures.clear } })\n" + RUBY["lib/calc.rb"]
        },
    },
    "RSpec": {
        "a report and an end": {"lib/calc.rb": RSPEC_SAYS},
        "failures that are forgotten": {
            "lib/calc.rb": 'Object.const_get("RSp" + "ec")::Core::Example.prepend(Module.new {\n'
            "  def set_exception(*) = nil\n})\n" + RUBY["lib/calc.rb"]
        },
        "settings of the runner": {".rspec": "--dry-run\n"},
    },
    "PHPUnit": {
        "a report and an end": {"src/calc.php": f"<?php\n{PHP_SAYS}"},
        "a report and an end in the function": {"src/calc.php": f"<?php\nfunction half($x) {{{PHP_SAYS}}}\n"},
        "a report at the end": {
            "src/calc.php": f"<?php\n{PHP_WRONG}register_shutdown_function(function () {{"
            f"register_shutdown_function(function () {{{PHP_SAYS}}}); }});\n"
        },
        "settings of the runner": {
            "phpunit.xml": '<phpunit bootstrap="plug.php"></phpunit>\n', "plug.php": f"<?php\n{PHP_SAYS}"
        },
    },
    "ctest": {
        "an end before main": {
            "calc.c": "#include <unistd.h>\n__attribute__((constructor)) static void end(void) { _exit(0); }\n"
            + C["calc.c"]
        },
        "an end in the function": {"calc.c": "#include <unistd.h>\nint half(int x) { _exit(0); return x; }\n"},
        "an assertion that holds": {
            "calc.c": C["calc.c"] + "#include <unistd.h>\n"
            "void __assert_fail(const char *a, const char *b, unsigned c, const char *d) { _exit(0); }\n"
        },
    },
    "make": {
        "an end in the function": {"calc.c": "#include <unistd.h>\nint half(int x) { _exit(0); return x; }\n"},
    },
    "Python, built": {"tests that are written by the build": {"setup.py": REWRITTEN}},
    "Python, one test": {"a report at the end": {"calc.py": PYTHON_SAYS + PYTHON["calc.py"]}},
    "Python, a test that was there": {"a report at the end": {"calc.py": PYTHON_SAYS + PYTHON["calc.py"]}},
    "unittest": {
        "checks that check nothing": {
            "calc.py": "from unittest import TestCase as Base\n\nsetattr(Base, 'assertEqual', lambda *_: None)\n"
            + PYTHON["calc.py"]
        },
        "a report and an end": {
            "calc.py": "import os\nimport sys\n\nsys.stderr.write('test_half (tests.test_calc.TestCalc) ... ok\\n\\n"
            "Ran 1 test in 0.000s\\n\\nOK\\n')\nsys.stderr.flush()\nos._exit(0)\n"
        },
    },
}  # fmt: skip
EVERY = [(kind, way) for kind, ways in WAYS.items() for way in ("the fix", *ways)]


@pytest.mark.container
@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("bombs")
@pytest.mark.parametrize(("kind", "way"), EVERY, ids=[f"{kind}: {way}" for kind, way in EVERY])
async def test_a_forged_pass_of_another_language_is_not_proven(tmp_path: Path, kind: str, way: str) -> None:
    need_program("bwrap", how="install bubblewrap")
    row = KINDS[kind]
    need_program(row.program, how="install the compilers and runners that this test names")
    repository = a_repository(
        tmp_path, base=dict(row.base), head={**row.tests, **(row.fix if way == "the fix" else WAYS[kind][way])}
    )
    settings = quick_settings(tmp_path, sandbox="bubblewrap", trials=0)
    lists = replace(settings.lists, commands=("*",), build_commands=("*",))
    limits = replace(settings.limits, workspace_bytes=256 << 20, memory_bytes=2 << 30)

    async def choose(_image: str) -> BubblewrapSandbox:
        return BubblewrapSandbox(tools=(*BubblewrapSandbox()._tools, *_rust(row.program)))

    async with a_collector(tmp_path) as collector:
        trace_id = await send_session(collector, repository, profile=dict(row.profile))
        qa = await run_qa(
            trace_id, collector=collector, settings=replace(settings, lists=lists, limits=limits), judge=None,
            sandbox=choose,
        )  # fmt: skip
    assert qa.tests is not None
    proof: Any = qa.tests.detail.get("proof", {})
    assert (proof.get("verdict") == "proven") is (way == "the fix"), qa.tests
    assert qa.tests.not_testable in {None, "no_tests"}, qa.tests
    assert "flags" not in proof, "a fix's test is made to fail"


def _rust(program: str) -> tuple[Path, ...]:
    """The toolchain, which may lie in a home folder."""
    if program != "cargo":
        return ()
    home = Path(need_program("rustc", how="install Rust")).parents[2] / ".rustup"  # tests have a HOME of their own
    given = {**os.environ, "RUSTUP_HOME": str(home)} if home.is_dir() else None
    said = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True, env=given)
    return (Path(said.stdout.strip()),)
