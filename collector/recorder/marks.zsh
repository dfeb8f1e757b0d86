# made by pm record: your own file first, then marks around prompts and commands
if [[ "$HISTFILE" == "@OURS@"/* ]]; then HISTFILE="$__pm_home/.zsh_history"; fi
ZDOTDIR="$__pm_home"
if [[ -f "$ZDOTDIR/.zshrc" ]]; then . "$ZDOTDIR/.zshrc"; fi
typeset -g __pm_nonce=@NONCE@
# In braces: `set -x` shows nothing of it. Never a failure: `set -e` and traps see none; zsh keeps $? between hooks.
__pm_precmd() { {
  local __pm_status=$? __pm_pipe="${(j: :)pipestatus[@]}" __pm_now='%D{%s.%3.}'
  printf '\033]7717;%s;A;%s@%s;%s;%s\007' "$__pm_nonce" "$__pm_status" "${(%)__pm_now}" "$__pm_pipe" "$PWD" >/dev/tty || :
} 2>/dev/null }
__pm_preexec() { {
  local flag=zsh
  if [[ -o histignorespace && "$1" == ' '* ]]; then flag=withheld; fi
  printf '\033]7717;%s;C;%s\007%s\033]7717;%s;/\007' "$__pm_nonce" "$flag" "$1" "$__pm_nonce" >/dev/tty || :
} 2>/dev/null }
typeset -ga precmd_functions preexec_functions
precmd_functions=(__pm_precmd "${precmd_functions[@]}")
preexec_functions=("${preexec_functions[@]}" __pm_preexec)
if [[ -n "@UNSET@" && "$__pm_home" == "$HOME" ]]; then unset ZDOTDIR; fi
unset __pm_home
