#compdef pm
# zsh completion for pm; save it as _pm in a folder of your $fpath.
_pm() {
    local -a found
    local candidate help
    while IFS=$'\t' read -r candidate help; do
        found+=("${candidate//:/\\:}:${help}")
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
