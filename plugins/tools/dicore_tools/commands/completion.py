"""`dicore completion`: shell completion of commands, components and options."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

import dicore_registry

__all__ = ["command", "names"]

_EPILOG = """\b
Examples:
  dicore completion bash > ~/.local/share/bash-completion/completions/dicore
  dicore completion zsh > "${fpath[1]}/_dicore"
  dicore completion fish > ~/.config/fish/completions/dicore.fish
"""

_WHAT = """\
    else case $before in
        -e|--env) what=env ;;
        -p|--policy) what=policy ;;
        -m|--mode) what=pipeline ;;
        --kind) what=kind ;;
        --status) what=status ;;
        --dist|--package) what=dist ;;
        *) case $first in
            list|catalogue) what=kind ;;
            show|check) what=component ;;
            completion) what=shell ;;
            *) what=option ;;
        esac ;;
    esac fi
"""

_BASH = (
    """\
# bash completion for dicore; calls `dicore completion __names WHAT -- PREFIX LINE`
_dicore() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} first=${COMP_WORDS[1]}
    local what
    COMPREPLY=()
    if [[ $word == = ]]; then word=
    elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
    if [[ $word == -* ]]; then what=options
    elif (( COMP_CWORD == 1 )); then what=command
"""
    + _WHAT
    + """\
    if [[ $what == option ]]; then
        compopt -o default 2>/dev/null
        [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && word==
    fi
    local -a line=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    COMPREPLY=($(dicore completion __names "$what" -- "$word" "${line[@]}" 2>/dev/null))
    [[ ${COMPREPLY[0]} == *[.=/] ]] && compopt -o nospace 2>/dev/null
}
complete -F _dicore dicore
"""
)

_ZSH = (
    """\
#compdef dicore
# zsh completion for dicore; calls `dicore completion __names WHAT -- PREFIX LINE`
_dicore() {
    local word=${words[CURRENT]} before=${words[CURRENT-1]} first=${words[2]} what
    if compset -P '--*='; then before=${word%%=*} word=${word#*=}; fi
    if [[ $word == -* ]]; then what=options
    elif (( CURRENT == 2 )); then what=command
"""
    + _WHAT
    + """\
    local -a line=("${(@)words[2,CURRENT-1]}")
    local -a found=(${(f)"$(dicore completion __names $what -- "$word" "$line[@]" 2>/dev/null)"})
    local -a open=(${(M)found:#*[.=/]})
    compadd -S '' -a open
    compadd -- ${found:|open}
    if [[ $what == option ]]; then _files || (( $#found )); fi
}
if [[ $funcstack[1] == _dicore ]]; then _dicore "$@"; else compdef _dicore dicore; fi
"""
)

_FISH = """\
# fish completion for dicore; calls `dicore completion __names WHAT -- PREFIX LINE`
function __dicore_names
    set -l word (commandline -ct | string replace -r '^--[^=]*=' '')
    dicore completion __names $argv[1] -- $word 2>/dev/null
end
function __dicore_config
    dicore completion __names option -- (commandline -ct) (commandline -opc)[2..-1] 2>/dev/null
end
function __dicore_options
    dicore completion __names options -- (commandline -ct) (commandline -opc)[2..-1] 2>/dev/null
end
complete -c dicore -n __fish_use_subcommand -f -a '(__dicore_names command)'
complete -c dicore -n '__fish_seen_subcommand_from list catalogue' -f -a '(__dicore_names kind)'
complete -c dicore -n '__fish_seen_subcommand_from show check' -f -a '(__dicore_names component)'
complete -c dicore -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'
complete -c dicore -s e -l env -x -a '(__dicore_names env)'
complete -c dicore -s p -l policy -x -a '(__dicore_names policy)'
complete -c dicore -s m -l mode -x -a '(__dicore_names pipeline)'
complete -c dicore -l kind -x -a '(__dicore_names kind)'
complete -c dicore -l status -x -a '(__dicore_names status)'
complete -c dicore -l dist -x -a '(__dicore_names dist)'
complete -c dicore -l package -x -a '(__dicore_names dist)'
complete -c dicore -n 'not __fish_use_subcommand' -a '(__dicore_config)'
complete -c dicore -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__dicore_options)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class _Completion(click.Command):
    """Prints a script; the scripts call `completion __names …` for the candidates."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        if args[:1] == ["__names"]:
            return names.make_context("__names", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=_Completion, name="completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(list(_SCRIPTS)))
def command(shell: str) -> None:
    """Prints a shell completion script for commands, components and options."""
    sys.stdout.write(_SCRIPTS[shell])


@click.command(name="__names", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("what")
@click.argument("prefix", default="", type=click.UNPROCESSED)
@click.argument("line", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def names(ctx: click.Context, what: str, prefix: str, line: Sequence[str]) -> None:
    """Prints the candidates that start with PREFIX, one per line.

    LINE contains the words before it; config options depend on them.
    """
    if what == "option":
        from dicore_tools.commands.completion_line import line_words

        for word in line_words(prefix, line, ctx.find_root()):
            sys.stdout.write(f"{word}\n")
        return
    for word in sorted(set(_words(what, ctx, line))):
        if word.startswith(prefix):
            sys.stdout.write(f"{word}\n")


def _words(what: str, ctx: click.Context, line: Sequence[str]) -> list[str]:
    registry = dicore_registry.default()
    what, _, name = what.partition("/")
    if what == "options":
        from dicore_tools.commands.completion_line import option_names

        return option_names([name] if name else line, ctx.find_root())
    if what == "kind":
        return list(registry.kinds())
    if what == "shell":
        return list(_SCRIPTS)
    if what == "status":
        return list(dicore_registry.STATUSES)
    if what in ("component", "dist"):
        usable = [entry for entry in registry.entries() if entry.status != "broken"]
        if what == "dist":
            return [entry.dist for entry in usable]
        return [f"{entry.kind}/{entry.name}" for entry in usable]
    entries = [entry for entry in registry.entries(what) if entry.status in ("ok", "conflict")]
    found = [entry.qualified if entry.status == "conflict" else entry.name for entry in entries]
    return [name.replace("_", "-") for name in found] if what == "command" else found
