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
#include <sys/stat.h>

#include "systemd.h"
#include "daemon/text/line_buffer.h"

/* Lines that wait while the journal does not read. */
#define WAITING_MAX 1000

#define FIELDS_MAX 8

/* A line under construction, then on its way. */
struct journald_entry {
	struct list link;
	struct iovec fields[FIELDS_MAX];
	int n_fields;
	size_t size;
	char bytes[LINE_MAX_SIZE + 512];
};

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

void journald_open(struct journald *journald, uv_loop_t *loop)
{
	bool is_wanted = systemd_has_manager() || journald_is_stream(STDERR_FILENO);

	*journald = (struct journald){.loop = is_wanted ? loop : NULL};
	list_init(&journald->waiting);
}

void journald_close(struct journald *journald)
{
	journald->loop = NULL;
	list_each_safe (struct journald_entry, journald_entry, &journald->waiting, link)
		free(journald_entry);
	list_init(&journald->waiting);
}

bool journald_is_sending(const struct journald *journald)
{
	return journald->sending;
}

/* ---- the thread */

static void send_entry(uv_work_t *work)
{
	const struct journald *journald = work->data;

	systemd_journal(journald->sending->fields, journald->sending->n_fields);
}

static void send_next(struct journald *journald);

static void on_sent(uv_work_t *work, _unused_ int status)
{
	struct journald *journald = work->data;

	free(journald->sending);
	journald->sending = NULL;
	send_next(journald);
}

static void send_next(struct journald *journald)
{
	if (journald->sending || list_empty(&journald->waiting))
		return;
	journald->sending = container_of(journald->waiting.next, struct journald_entry, link);
	list_remove(&journald->sending->link);
	journald->n_waiting--;
	journald->work.data = journald;
	uv_queue_work(journald->loop, &journald->work, send_entry, on_sent);
}

/* ---- entries */

_printf_(2, 3) static void entry_add(struct journald_entry *entry, const char *format, ...)
{
	size_t room = sizeof(entry->bytes) - entry->size;
	char *field = entry->bytes + entry->size;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(field, room, format, args);
	va_end(args);
	if (n <= 0 || (size_t)n >= room || entry->n_fields == FIELDS_MAX)
		return;
	entry->fields[entry->n_fields++] = (struct iovec){field, (size_t)n};
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
static void entry_add_ids(struct journald_entry *entry, const char *text)
{
	const char *device = strstr(text, "evice ");
	int pid = client_in_line(text);
	unsigned ordinal;

	if (pid > 0)
		entry_add(entry, "MPS_CLIENT_PID=%d", pid);
	if (device && sscanf(device, "evice %9u", &ordinal) == 1)
		entry_add(entry, "MPS_DEVICE=%u", ordinal);
}

static int entry_priority(bool is_server, const struct log_subject *about, const char *text)
{
	if (about->priority)
		return about->priority;
	if (is_server && strstr(text, "fatal GPU error"))
		return JOURNAL_ERROR;
	return strncmp(text, "Cannot ", strlen("Cannot ")) == 0 ? JOURNAL_ERROR : JOURNAL_INFO;
}

static struct journald_entry *entry_new(
	bool is_server, const struct log_subject *about, const char *text)
{
	struct journald_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry_add(entry, "MESSAGE=%.*s", LINE_MAX_SIZE, text);
	entry_add(entry, "PRIORITY=%d", entry_priority(is_server, about, text));
	entry_add(entry, "SYSLOG_IDENTIFIER=%s", program_invocation_short_name);
	entry_add(entry, "MPS_ROLE=%s", is_server ? "server" : "control");
	if (about->server > 0)
		entry_add(entry, "MPS_SERVER_PID=%d", about->server);
	if (is_server)
		entry_add_ids(entry, text);
	else if (about->client > 0)
		entry_add(entry, "MPS_CLIENT_PID=%d", about->client);
	if (about->has_uid)
		entry_add(entry, "MPS_UID=%u", about->uid);
	return entry;
}

static int journald_put(struct journald *journald, bool is_server, const struct log_subject *about,
	const char *text)
{
	struct journald_entry *entry =
		journald->n_waiting < WAITING_MAX ? entry_new(is_server, about, text) : NULL;

	if (!entry)
		return -1;
	list_add_tail(&journald->waiting, &entry->link);
	journald->n_waiting++;
	send_next(journald);
	return 0;
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
	if (!journald->loop)
		return;
	if (journald_report_lost(journald) < 0 ||
		journald_put(journald, is_server, about, text) < 0)
		journald->n_lost++;
}
