"""The mandatory rules that go with every request: built in, or the project's own `.pm-orchestrator/rules.md`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tracer.errors import ConfigError

__all__ = ["BUILT_IN_RULES", "load_rules"]

_MAX_BYTES: Final = 256_000

BUILT_IN_RULES: Final = """\
## Mandatory Rules
- Finish the whole task. Leave no TODO, FIXME, stub or placeholder behind.
- Write files whole: never put a remark such as "rest unchanged" in the place of code.
- What you deliver must parse; if the project has tests, they must pass.
- Do not delete, skip or weaken tests or checks unless the task asks for it.
- Name the files you changed. Do not say that something is done before you have checked it.
- Do not leave steps to the reader that you can do yourself.
"""


def load_rules(state_dir: Path) -> str:
    """The text of `rules.md` in the state directory, or the built-in rules where there is none.

    Raises:
        ConfigError: the file is not readable UTF-8 text of at most 256 kB.

    """
    path = state_dir / "rules.md"
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return BUILT_IN_RULES
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}", why=str(error), next_step="mend or remove the file") from error
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"{str(path)!r} is too large", why="rules may have 256 kB", next_step="shorten it")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{str(path)!r} is not UTF-8", why=str(error), next_step="save it as UTF-8") from error
    return text if text.strip() else BUILT_IN_RULES
