# SPDX-License-Identifier: Apache-2.0
#
# Completion of mps-run for bash: its options, then a program and that program's arguments.

_mps_run() {
	local current=${COMP_WORDS[COMP_CWORD]} at=1
	while [ $at -lt "$COMP_CWORD" ] && [[ ${COMP_WORDS[at]} == -* ]]; do
		at=$((at + 1))
	done
	if [ "$COMP_CWORD" -eq $at ] && [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help |
			sed -nE 's/^  ((-[a-z]), )?(--[a-z]+) .*/\2 \3/p')" -- "$current")
		return
	fi
	if declare -F _command_offset >/dev/null; then
		_command_offset $at
	elif [ "$COMP_CWORD" -eq $at ]; then
		mapfile -t COMPREPLY < <(compgen -A command -- "$current")
	else
		mapfile -t COMPREPLY < <(compgen -A file -- "$current")
	fi
}

complete -F _mps_run mps-run
