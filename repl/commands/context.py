"""What a command is given: where it runs, where it writes, which settings hold, and the session it belongs to.

Everything costly is looked up on first use. `session` is None on the plain command line; in `pm>` it is the running
`repl.session.Session`, so that one handler serves both.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repl.present.output import Output
from tracer.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from runner.settings.layers import Settings
    from tracer.statedir import StateDir

__all__ = ["Context"]


class Context:
    """The surroundings of one command. `arguments` holds its parsed arguments, global flags included.

    `running_task` is the task that an interruption would leave resumable.
    """

    def __init__(
        self,
        *,
        output: Output,
        environ: Mapping[str, str],
        arguments: Namespace,
        command: str = "",
        session: Any = None,
    ) -> None:
        self.output = output
        self.environ = environ
        self.arguments = arguments
        self.command = command
        self.session = session
        self.running_task = ""
        self._settings: Settings | None = None

    @property
    def folder(self) -> Path:
        """The folder to work in, absolute (`-C`, else the current one).

        Raises:
            UsageError: it is not a folder, or the current one is gone.

        """
        from pathlib import Path  # 10 ms, not needed by `pm version`

        if self.session is not None and not getattr(self.arguments, "directory", None):
            return Path(self.session.folder)
        try:
            folder = Path(os.path.abspath(getattr(self.arguments, "directory", None) or os.getcwd()))  # noqa: PTH100, PTH109 - keeps symlinks as typed
        except FileNotFoundError as error:
            raise UsageError("the current folder is gone", next_step="cd to a folder that exists") from error
        if not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is not a folder", next_step="give an existing folder with -C")
        return folder

    @property
    def state_root(self) -> Path:
        """The state directory: `--state-dir`, `PM_STATE_DIR`, else the nearest `.pm-orchestrator` at or above."""
        from pathlib import Path

        given = getattr(self.arguments, "state_dir", None) or self.environ.get("PM_STATE_DIR")
        if given:
            return (self.folder / Path(given).expanduser()).absolute()
        if self.session is not None:
            return Path(self.session.state_dir.root)
        from tracer.statedir import StateDir

        return StateDir.find(self.folder).root

    @property
    def state_dir(self) -> StateDir:
        """The state directory as the tracer knows it; nothing is created by asking."""
        from tracer.statedir import StateDir

        return StateDir(self.state_root)

    def _setting_flags(self) -> dict[str, Any]:
        """The arguments but for flags of the command's own: `pm think --kind` is no `run.kind`."""
        from repl.commands.registry import find_command

        command = find_command(self.command)
        own = {flag.destination for flag in command.flags if not flag.setting} if command is not None else set()
        return {name: value for name, value in vars(self.arguments).items() if name not in own}

    def settings(self) -> Settings:
        """The settings in force, all layers merged; read once.

        Raises:
            ConfigError: a file or variable that cannot be used.

        """
        if self._settings is None:
            from runner.settings.layers import load_settings  # tomllib, 8 ms

            self._settings = load_settings(
                project=self.state_root,
                environ=self.environ,
                extra_file=getattr(self.arguments, "config", None),
                flags=self._setting_flags(),
            )
            names = self._settings.get("redaction.extra_names")
            if names:  # every writer of records in this process asks the environment, also those below the settings
                os.environ["PM_REDACTION_EXTRA_NAMES"] = ",".join(names)
        return self._settings
