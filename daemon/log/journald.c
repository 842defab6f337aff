/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The journal of systemd. Loop thread.
 *
 * Invariant: a field's value has no newline, so that foreign text cannot
 * become a field.
 */

#include "journald.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/text/line_buffer.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

bool journald_is_stream(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char own[64];
	struct stat st;

	if (!stream || fstat(fd, &st) < 0)
		return false;
	snprintf(own, sizeof(own), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	return strcmp(stream, own) == 0;
}

static int connect_journal(void)
{
	const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

void journald_open(struct journald *journald)
{
	bool is_wanted = getenv("NOTIFY_SOCKET") || journald_is_stream(STDERR_FILENO);

	*journald = (struct journald){.fd = is_wanted ? connect_journal() : -EBADF};
}

void journald_close(struct journald *journald)
{
	closep(&journald->fd);
	journald->fd = -EBADF;
}

/* A datagram under construction. */
struct entry {
	size_t size;
	char bytes[LINE_MAX_SIZE + 512];
};

_printf_(2, 3) static void entry_add(struct entry *entry, const char *format, ...)
{
	size_t room = sizeof(entry->bytes) - entry->size;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(entry->bytes + entry->size, room, format, args);
	va_end(args);
	if (n > 0 && (size_t)n < room)
		entry->size += (size_t)n;
}

/* The client that a server's line names: "Client process 12 ...", "{PID: 12, Context ID: 1}". */
static int client_in_line(const char *text)
{
	const char *named = strstr(text, "{PID: ");
	int pid = 0;

	if (sscanf(text, "Client process %9d ", &pid) != 1 && named &&
		sscanf(named, "{PID: %9d, Context", &pid) != 1)
		return 0;
	return pid;
}

/* Adds the client and the GPU ("device 0") that a server's line names. */
static void entry_add_ids(struct entry *entry, const char *text)
{
	const char *device = strstr(text, "evice ");
	int pid = client_in_line(text);
	unsigned ordinal;

	if (pid > 0)
		entry_add(entry, "MPS_CLIENT_PID=%d\n", pid);
	if (device && sscanf(device, "evice %9u", &ordinal) == 1)
		entry_add(entry, "MPS_DEVICE=%u\n", ordinal);
}

static int entry_priority(bool is_server, const struct log_subject *about, const char *text)
{
	if (about->priority)
		return about->priority;
	if (is_server && strstr(text, "fatal GPU error"))
		return JOURNAL_ERROR;
	return strncmp(text, "Cannot ", strlen("Cannot ")) == 0 ? JOURNAL_ERROR : JOURNAL_INFO;
}

static int journald_put(struct journald *journald, bool is_server, const struct log_subject *about,
	const char *text)
{
	struct entry entry = {0};

	entry_add(&entry, "MESSAGE=%.*s\n", LINE_MAX_SIZE, text);
	entry_add(&entry, "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nMPS_ROLE=%s\n",
		entry_priority(is_server, about, text), program_invocation_short_name,
		is_server ? "server" : "control");
	if (about->server > 0)
		entry_add(&entry, "MPS_SERVER_PID=%d\n", about->server);
	if (is_server)
		entry_add_ids(&entry, text);
	else if (about->client > 0)
		entry_add(&entry, "MPS_CLIENT_PID=%d\n", about->client);
	if (about->has_uid)
		entry_add(&entry, "MPS_UID=%u\n", about->uid);
	if (send(journald->fd, entry.bytes, entry.size, MSG_NOSIGNAL) >= 0)
		return 0;
	/* The journal was restarted: the next line uses the new socket. */
	if (errno == ECONNREFUSED || errno == ENOTCONN) {
		journald_close(journald);
		journald->fd = connect_journal();
	}
	return -1;
}

/* Reports lost lines before the next line. */
static int journald_report_lost(struct journald *journald)
{
	const struct log_subject about = {.priority = JOURNAL_WARNING};
	char text[96];
	int r;

	if (journald->n_lost == 0)
		return 0;
	snprintf(text, sizeof(text), "%lu lines were written to control.log and server.log only",
		journald->n_lost);
	r = journald_put(journald, false, &about, text);
	if (r == 0)
		journald->n_lost = 0;
	return r;
}

void journald_send(struct journald *journald, bool is_server, const struct log_subject *about,
	const char *text)
{
	if (journald->fd < 0)
		return;
	if (journald_report_lost(journald) < 0 ||
		journald_put(journald, is_server, about, text) < 0)
		journald->n_lost++;
}
