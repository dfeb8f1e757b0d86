"""The completion scripts of bash, zsh and fish: thin, because `pm __complete` knows everything.

`pm __complete WORD…` prints one candidate a line, `text<TAB>help`; the last word is the one at the cursor. Nothing that
it prints is ever evaluated by the shell.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from repl.present.text import one_line
from repl.registry.complete import candidates, sources_for
from repl.registry.parse import leading_globals

if TYPE_CHECKING:
    from repl.context import Context

_BASH = """\
# bash completion for pm; source it, or save it where bash-completion looks.
_pm() {
    local line candidate
    COMPREPLY=()
    local current="${COMP_WORDS[COMP_CWORD]}"
    while IFS=$'\\t' read -r candidate line; do
        [[ "$candidate" == "$current"* ]] && COMPREPLY+=("$candidate")
    done < <(command pm __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == */ ]] && compopt -o nospace
    return 0
}
complete -o default -F _pm pm
"""

_ZSH = """\
#compdef pm
# zsh completion for pm; save it as _pm in a folder of your $fpath.
_pm() {
    local -a found
    local candidate help
    while IFS=$'\\t' read -r candidate help; do
        found+=("${candidate//:/\\\\:}:${help}")
    done < <(command pm __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe 'pm' found
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == "_pm" ]]; then
    _pm "$@"
else
    compdef _pm pm
fi
"""

_FISH = """\
# fish completion for pm; save it as ~/.config/fish/completions/pm.fish
function __pm_complete
    set -l words (commandline -opc) (commandline -ct)
    command pm __complete -- $words[2..-1] 2>/dev/null
end
complete -c pm -f -a '(__pm_complete)'
"""


def script_for(shell: str) -> str:
    return {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]


def complete(context: Context, arguments: Namespace) -> int:
    words = list(arguments.words)
    words = words[leading_globals(words[:-1]) :]
    for candidate in candidates(words, surface="cli", sources=sources_for(context, "cli")):
        context.output.line(f"{candidate.text}\t{one_line(candidate.help)}")
    return 0
