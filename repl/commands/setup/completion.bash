# bash completion for pm; source it, or save it where bash-completion looks.
_pm() {
    local line candidate
    COMPREPLY=()
    local current="${COMP_WORDS[COMP_CWORD]}"
    while IFS=$'\t' read -r candidate line; do
        [[ "$candidate" == "$current"* ]] && COMPREPLY+=("$candidate")
    done < <(command pm __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == */ ]] && compopt -o nospace
    return 0
}
complete -o default -F _pm pm
