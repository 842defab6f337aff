# SPDX-License-Identifier: Apache-2.0
#
# Completion of mps-control and mps-top for bash. The options and commands are those that the installed
# mps-control prints with -h, so a new command needs no change here.

# Lines "NAME USAGE" of the help: two spaces separate them from their description.
_mps_control_help() {
	"$1" -h 2>/dev/null | awk -F '  +' 'NF >= 3 { print $2 }'
}

# What a command of the daemon prints; nothing if no daemon answers.
_mps_control_ask() {
	local said
	said=$(timeout 2 "$@" 2>/dev/null </dev/null) && echo "$said"
}

# The candidates for one word of a usage.
_mps_control_word() {
	case $2 in
	PID | SERVER_PID) _mps_control_ask "$1" get_server_list ;;
	CLIENT_PID) _mps_control_ask "$1" ps | awk '$1 ~ /^[0-9]+$/ { print $1 }' ;;
	NAME) _mps_control_ask "$1" group list | awk 'NR > 1 { print $1 }' ;;
	FILE) compgen -f ;;
	UID) getent passwd | cut -d : -f 3 ;;
	OPTION) echo -active_thread_percentage -device_pinned_mem_limit -priority -uid ;;
	-*=*) printf '%s\n' "${2%%=*}=" ;;
	-* | [a-z]*) printf '%s\n' "$2" ;;
	esac
}

# mps_control_candidates CONTROL WORD...: what may follow these words.
_mps_control_candidates() {
	local control=$1 word
	shift
	while [ $# -gt 0 ]; do
		case $1 in
		-p | --protocol)
			[ $# -gt 1 ] || { echo "2 3" && return; }
			shift
			;;
		-a | --apply | -c | --config) shift ;;
		-m | --metrics)
			[ $# -gt 1 ] || { echo off && return; }
			shift
			;;
		-*) ;;
		*) break ;;
		esac
		shift
	done
	if [ $# -eq 0 ]; then
		_mps_control_help "$control" | sed -E '/^-/ s/,? [0-9]*/\n/g; s/ .*//'
		return
	fi
	for word in $(_mps_control_help "$control" | sed -n "s/^$1 //p" | tr '[]|,.' ' '); do
		_mps_control_word "$control" "$word"
	done
}

_mps_control() {
	local IFS=$' \t\n'
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	-a | --apply | -c | --config | check-config)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W \
		"$(_mps_control_candidates "${COMP_WORDS[@]:0:COMP_CWORD}")" -- "${COMP_WORDS[COMP_CWORD]}")
}

# It takes what `mps-control top' takes.
_mps_top() {
	local IFS=$' \t\n'
	mapfile -t COMPREPLY < <(compgen -W \
		"$(_mps_control_candidates "${COMP_WORDS[0]%top}control" top)" -- "${COMP_WORDS[COMP_CWORD]}")
}

complete -F _mps_control mps-control nvidia-cuda-mps-control
complete -F _mps_top mps-top
