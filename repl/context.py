"""What a command is given: where it runs, where it writes, which settings hold, and the session it belongs to.

Everything costly is looked up on first use. `session` is None on the plain command line; in `pm>` it is the running
`repl.session.Session`, so that one handler serves both.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.present.output import Output
from tracer.errors import ConfigError, UsageError
from tracer.redaction.redactor import RedactionSettings

if TYPE_CHECKING:
    from repl.registry.spec import Surface
    from tracer.lookup import TaskRef
    from tracer.redaction.engine import ProjectRedactor
    from tracer.settings.layers import Settings
    from tracer.statedir import StateDir


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

        Raises UsageError: it is not a folder, or the current one is gone.
        """
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
    def surface(self) -> Surface:
        """Where the command was typed: on the command line or at `pm>`."""
        return "cli" if self.session is None else "slash"

    @property
    def prefix(self) -> str:
        """What commands begin with there, in hints."""
        return "pm " if self.session is None else "/"

    def path(self, name: str) -> Path:
        """The place that an argument names, from the folder to work in."""
        return self.folder / Path(name).expanduser()

    @property
    def state_root(self) -> Path:
        """The state directory: `--state-dir`, `PM_STATE_DIR`, else the project's own (`StateDir.find`).

        Raises ConfigError: that one belongs to another user.
        """
        given = getattr(self.arguments, "state_dir", None) or self.environ.get("PM_STATE_DIR")
        if given:
            return self.path(given).absolute()
        if self.session is not None:
            root: Path = self.session.state_dir.root
            return root
        from tracer.statedir import StateDir

        return StateDir.find(self.folder).root

    @property
    def state_dir(self) -> StateDir:
        """The state directory as the tracer knows it; nothing is created by asking."""
        from tracer.statedir import StateDir

        return StateDir(self.state_root)

    def task(self, selector: str | None) -> TaskRef:
        """The task an argument means; None is the current or newest one. Raises NotFoundError: none, or several."""
        if self.session is not None:
            found: TaskRef = self.session.resolve(selector)
            return found
        from tracer.lookup import resolve_task

        return resolve_task(self.state_dir, selector)

    def setting_flags(self) -> dict[str, Any]:
        """The arguments but for the command's own: `pm think --kind` and `pm export 1 md` are no `run.kind`."""
        from repl.registry.commands import find_command

        command = find_command(self.command)
        if command is None:
            return vars(self.arguments)
        own = {flag.destination for flag in command.flags if not flag.setting}
        own |= {argument.name for argument in command.arguments}
        return {name: value for name, value in vars(self.arguments).items() if name not in own}

    def settings(self) -> Settings:
        """The settings in force, all layers merged; read once.

        Raises ConfigError: a file or variable that cannot be used.
        """
        if self._settings is None:
            from tracer.settings.layers import load_settings  # tomllib, 8 ms

            settings = load_settings(
                project=self.state_root,
                environ=self.environ,
                extra_file=getattr(self.arguments, "config", None),
                flags=self.setting_flags(),
            )
            self.output.redaction = _redaction(settings)
            self._settings = settings
        return self._settings

    def redaction(self) -> RedactionSettings:
        """What the settings add to redaction, for every redactor that is built: `build_redactor(…, **_asdict())`.

        Raises ConfigError: settings that cannot be used, a rule that is no RE2 pattern among them.
        """
        return _redaction(self.settings())

    def redactor(self, **options: Any) -> ProjectRedactor:
        """The redactor of this project with what the settings add; `options` go to `build_redactor`."""
        from tracer.redaction.engine import build_redactor  # 25 ms, needed where something is redacted

        given = {"state_dir": self.state_root, "environ": self.environ, **self.redaction()._asdict(), **options}
        return build_redactor(**given)


def _redaction(settings: Settings) -> RedactionSettings:
    """Refuses a rule that cannot be used before anything is written without it."""
    rules = settings.family("redaction.extra_rules")
    if rules:
        _check_rules(settings, rules)
    return RedactionSettings(tuple(settings.get("redaction.extra_names") or ()), tuple(rules.items()))


def _check_rules(settings: Settings, rules: Mapping[str, str]) -> None:
    from tracer.redaction.rule_pack import build_rules  # google-re2, 17 ms, only for those with rules of their own

    for name, pattern in rules.items():
        try:
            build_rules({name: pattern})
        except ConfigError as error:
            where = settings.origin(f"redaction.extra_rules.{name}").where
            raise ConfigError(
                error.what, why=f"{error.why} ({where})" if where else error.why, next_step=error.next_step
            ) from error
