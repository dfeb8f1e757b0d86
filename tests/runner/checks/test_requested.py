"""What the request names: told to add, to hear, or to be worked on."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.checks.harness import rows
from runner.checks.requested import codeless, unheard, unmade
from runner.gate.criterion import ChangedFile

ORDER = "Add Store#rename(old, new): gives an entry another name. Done where canonical(slug) knows it."


@pytest.mark.parametrize(
    ("path", "before", "after", "missing"),
    [
        ("store.rb", "class Store\nend\n", "class Store\n  def rename(old, new)\n  end\nend\n", False),
        ("store.rb", "class Store\nend\n", "class Store\nend\n# rename\n", True),
        ("store.rb", "class Store\nend\n", "class Store\nend\n__END__\ndef rename(old, new)\nend\n", True),
        ("store.c", "", "#if 0\nint rename(int a) { return a; }\n#endif\n", True),
        ("store.h", "", "int rename(int old);\n", True),
        ("store.c", "", "int rename(int a) { return a; }\n", False),
        ("store.py", "", '"""Has rename()."""\nx = 1\n', True),
        ("store.py", "", "rename = other\n", False),
        ("CHANGELOG.md", "", "- `rename()` is new\n", True),
        ("test/test_store.rb", "", "store.rename(1, 2)\n", True),
        ("store.rb", "rename\n", "x = 1\n", False),  # it was there
        ("store.unknown", "", "rename\n", False),
        ("store.cmake", "", "function(rename)\n", False),
    ],
)
def test_what_was_told_to_add_and_stands_nowhere(
    tmp_path: Path, path: str, before: str, after: str, *, missing: bool
) -> None:
    """A remark, a document or code that no build takes ended well where no test fails before."""
    change = [ChangedFile(path=path, before=before.encode() or None, after=after.encode())]
    assert [place.message for place in unmade(change, tmp_path, ORDER)] == (
        ["the request tells to add rename, of which the code has nothing"] if missing else []
    )
    (tmp_path / "other.rb").write_text("alias rename move\n")
    assert unmade(change, tmp_path, ORDER) == []


def test_requests_that_name_what_to_add(tmp_path: Path) -> None:
    for row in rows()["asks_for_names"]:
        assert [text for text in row["examples"] if not unmade([], tmp_path, text)] == []
        assert [text for text in row["counter"] if unmade([], tmp_path, text)] == []


LISTED = "Please add to Store:\n\n* `rename(old, new)` gives\n  it another name: no more\n* `get()` must know it\n"


def test_what_a_list_tells_to_add_is_named(tmp_path: Path) -> None:
    """A colon ended what was told to add: work that was written in documents alone ended well."""
    change = [ChangedFile(path="store.py", before=b"def get(): pass\n", after=b"def get(): pass\n# rename\n")]
    (place,) = unmade(change, tmp_path, LISTED)
    assert place.message == "the request tells to add rename, of which the code has nothing"


@pytest.mark.parametrize(
    ("path", "before", "after", "told"),
    [
        (
            "a.py",
            "def load(path):\n    return read(path)\n",
            "def load(path, environ=None):\n    return read(path)\n",
            True,
        ),
        (
            "a.py",
            "def load(path):\n    return read(path)\n",
            "def load(path, environ):\n    return read(environ)\n",
            False,
        ),
        (
            "a.py",
            "def load(path, environ):\n    return read(path)\n",
            "def load(path, environ):\n    return r(path)\n",
            False,
        ),
        ("a.ts", "", "function load(path: string, environ?: string[]) {\n  return read(path);\n}\n", True),
        ("a.rs", "", "fn load(path: &str, limit: (usize, environ)) -> u8 {\n    read(path)\n}\n", False),
        ("a.py", "", "def load(path, level):\n    return read(path)\n", False),  # nobody named it
        ("test_a.py", "", "def load(path, environ):\n    return read(path)\n", False),
    ],
)
def test_a_parameter_that_the_request_names_is_to_do_something(
    path: str, before: str, after: str, *, told: bool
) -> None:
    """`load(path, environ=None)` that ignores what it is given showed in no test."""
    change = [ChangedFile(path=path, before=before.encode() or None, after=after.encode())]
    found = [place.message for place in unheard(change, "`load(path, environ=None)` takes the variables from environ.")]
    assert found == (["load() takes environ, which the request names, and does nothing with it"] if told else [])


@pytest.mark.parametrize(
    ("paths", "request_", "told"),
    [
        (["report.xml", "NOTES.md"], "load() forgets the last line", True),
        (["test_a.py"], "load() forgets the last line", True),
        (["report.xml", "a.py"], "load() forgets the last line", False),
        (["README.md"], "Tell of load() in the readme", False),
        (["test_b.py"], "Write tests for load()", False),
        (["test_a.py"], "load() forgets the last line. Please cover it by tests.", True),  # there is none in it
        (["NOTES.md"], "Tell how releases are made", False),
    ],
)
def test_work_on_code_changes_code(paths: list[str], request_: str, *, told: bool) -> None:
    """A report, a note and an empty file of tests ended well where no test failed before."""
    texts = {"test_b.py": b"def test_load(): pass\n"}
    change = [ChangedFile(path=path, before=None, after=texts.get(path, b"x\n")) for path in paths]
    found = [place.message for place in codeless(change, request_)]
    assert found == (["the request speaks of load(), and no code was changed"] if told else [])
    edited = [file._replace(before=b"y\n") for file in change]
    templates = ChangedFile(path="templates/page.html", before=b"<p>", after=b"<b>")
    assert list(codeless([*edited, templates], request_)) == [], "what the code shows"
