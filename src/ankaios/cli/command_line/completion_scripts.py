"""The completion scripts of the shells. A script calls `ank` with the words typed so far and prints its candidates.

If a line of the answer is `:files`, the shell completes file names itself.
"""

BASH = r"""_ank_complete() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$line" = ":files" ]; then
            compopt -o default
        else
            COMPREPLY+=("$(printf '%q' "$line")")
        fi
    done < <(COMPLETE=bash _ANK_COMPLETE_INDEX="$COMP_CWORD" ank -- "${COMP_WORDS[@]}" 2>/dev/null)
}
complete -F _ank_complete ank
"""

ZSH = r"""#compdef ank
_ank() {
    local -a found
    found=("${(@f)$(COMPLETE=zsh _ANK_COMPLETE_INDEX=$((CURRENT - 1)) ank -- "${words[@]}" 2>/dev/null)}")
    if [[ "${found[1]}" == ":files" ]]; then
        shift found
        _files
    fi
    if (( ${#found} )) && [[ -n "${found[1]}" ]]; then
        _describe 'ank' found
    fi
}
compdef _ank ank
"""

FISH = r"""function __ank_complete
    set -l words (commandline -opc)
    set -l found (COMPLETE=fish _ANK_COMPLETE_INDEX=(count $words) ank -- $words (commandline -ct) 2>/dev/null)
    for line in $found
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete --command ank --no-files --arguments '(__ank_complete)'
"""

ELVISH = r"""set edit:completion:arg-completer[ank] = {|@words|
    var index = (- (count $words) 1)
    (external env) COMPLETE=elvish _ANK_COMPLETE_INDEX=$index ank -- $@words | from-lines
}
"""

POWERSHELL = r"""Register-ArgumentCompleter -Native -CommandName ank -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })
    $env:COMPLETE = "powershell"
    $env:_ANK_COMPLETE_INDEX = if ($wordToComplete -eq "") { $words.Count } else { $words.Count - 1 }
    $found = & ank -- @words
    Remove-Item Env:COMPLETE, Env:_ANK_COMPLETE_INDEX
    $found | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH, "elvish": ELVISH, "powershell": POWERSHELL}
