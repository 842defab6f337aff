/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libsystemd, and what is in its place where the build had none. Any thread.
 *
 * Invariant: variables that were meant for another process have no effect.
 */

#include "systemd.h"

#ifdef MPS_SYSTEMD

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

bool systemd_has_manager(void)
{
	return getenv("NOTIFY_SOCKET");
}

int systemd_notify(const char *state)
{
	return MIN(sd_notify(false, state), 0);
}

uint64_t systemd_watchdog_us(void)
{
	uint64_t us = 0;

	return sd_watchdog_enabled(false, &us) > 0 ? us : 0;
}

int systemd_take_listener(void)
{
	int n = sd_listen_fds(true), fd = SD_LISTEN_FDS_START;

	if (n <= 0)
		return n < 0 ? n : -ENOENT;
	if (n > 1)
		return -E2BIG;
	if (sd_is_socket_unix(fd, SOCK_STREAM, true, NULL, 0) <= 0)
		return -EPROTOTYPE;
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : fd;
}

void systemd_journal(const struct iovec *fields, int n_fields)
{
	sd_journal_sendv(fields, n_fields);
}

#else

bool systemd_has_manager(void)
{
	return false;
}

int systemd_notify(_unused_ const char *state)
{
	return -ENOENT;
}

uint64_t systemd_watchdog_us(void)
{
	return 0;
}

int systemd_take_listener(void)
{
	return -ENOENT;
}

void systemd_journal(_unused_ const struct iovec *fields, _unused_ int n_fields)
{
}

#endif
