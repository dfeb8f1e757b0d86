# fish completion for pm; save it as ~/.config/fish/completions/pm.fish
function __pm_complete
    set -l words (commandline -opc) (commandline -ct)
    command pm __complete -- $words[2..-1] 2>/dev/null
end
complete -c pm -f -a '(__pm_complete)'
