# made by pm record: your own start-up file first, then marks around prompts and commands
if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
__pm_nonce=@NONCE@
__pm_precmd() {
  local IFS=' '
  __pm_status=$1
  printf '\033]7717;%s;A;%s@%s;%s;%s\007' "$__pm_nonce" "$1" "${EPOCHREALTIME-}" "${*:2}" "$PWD" 2>/dev/null >/dev/tty || :
}
__pm_again() { return "$__pm_status"; }
__pm_preexec() {
  printf '\033]7717;%s;C;%s\007' "$__pm_nonce" "bash"
  HISTTIMEFORMAT= builtin history 1 2>/dev/null || :
  printf '\033]7717;%s;/\007' "$__pm_nonce"
}
# In braces: `set -x` shows nothing of it. One call that does not fail: `set -e` and traps see no failure that is none.
PS0="${PS0-}"'$({ trap - DEBUG; } >/dev/null 2>&1; { __pm_preexec; } 2>/dev/null)'
if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
  PROMPT_COMMAND=('{ __pm_precmd "$?" "${PIPESTATUS[@]}"; } 2>/dev/null' "${PROMPT_COMMAND[@]}")
else
  __pm_hook='{ __pm_precmd "$?" "${PIPESTATUS[@]}"; __pm_again && :; } 2>/dev/null'
  PROMPT_COMMAND="$__pm_hook${PROMPT_COMMAND:+; $PROMPT_COMMAND}"
  unset __pm_hook
fi
