# SPDX-License-Identifier: Apache-2.0
#
# Completion of mps-run for bash: its options, then a program and that program's arguments.

_mps_run() {
	local current=${COMP_WORDS[COMP_CWORD]} at=1
	if [ "$COMP_CWORD" -eq 1 ] && [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help |
			sed -nE 's/^  (-[a-z]), (--[a-z]+) .*/\1 \2/p')" -- "$current")
		return
	fi
	[[ ${COMP_WORDS[1]} != -* ]] || at=2
	if declare -F _command_offset >/dev/null; then
		_command_offset $at
	elif [ "$COMP_CWORD" -eq $at ]; then
		mapfile -t COMPREPLY < <(compgen -A command -- "$current")
	else
		mapfile -t COMPREPLY < <(compgen -A file -- "$current")
	fi
}

complete -F _mps_run mps-run
