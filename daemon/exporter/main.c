/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mps-exporter: answers HTTP requests for the metrics. The daemon starts it, as exporter_start.h
 * describes, with a socket that listens and with a connection on which it can only ask for the
 * page.
 *
 * Invariant: no byte of a peer is read with the rights of root, unless the machine has no user
 * `mps'.
 */

#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "http.h"
#include "daemon/text/tokenize.h"
#include "daemon/ask/exporter_start.h"

/* The process becomes that user for good. */
static bool give_up_rights(const char *uid_text, const char *gid_text)
{
	uint64_t uid, gid;

	if (parse_number(uid_text, UINT32_MAX - 1, &uid) < 0 ||
		parse_number(gid_text, UINT32_MAX - 1, &gid) < 0)
		return false;
	return setgroups(0, NULL) == 0 && setresgid((gid_t)gid, (gid_t)gid, (gid_t)gid) == 0 &&
	       setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) == 0;
}

int main(int argc, char **argv)
{
	if ((argc != 2 && argc != 4) || *argv[1] == '-') {
		fputs("usage: mps-exporter SUBUID_FILE [UID GID]\n"
		      "Started by mps-control, for -m and metrics_listen; not to be run by hand.\n",
			stderr);
		return EXIT_FAILURE;
	}
	if (argc == 4 && !give_up_rights(argv[2], argv[3]))
		return EXIT_FAILURE;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* The daemon may have a higher priority than other programs. */
	if (getpriority(PRIO_PROCESS, 0) < 0)
		setpriority(PRIO_PROCESS, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	return http_run(EXPORTER_LISTENER_FD, EXPORTER_DAEMON_FD, argv[1]);
}
