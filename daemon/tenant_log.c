/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines that users cause. Loop thread.
 *
 * Invariant: while lines that were left out have not been told of, the timer
 * runs.
 */

#include <stdarg.h>
#include <stdio.h>

#include "allowances.h"
#include "daemon.h"
#include "line_buffer.h"
#include "tenant.h"
#include "tenant_log.h"

#define TELL_MS 1000

static void tell_control(struct daemon *daemon, struct tenant *tenant, unsigned long n)
{
	struct journal_about about = {.priority = JOURNAL_WARNING};

	if (n == 0)
		return;
	if (!tenant) {
		journal_control_about(&daemon->journal, &about,
			"%lu lines about connections that could not be kept were left out", n);
		return;
	}
	about.has_uid = true;
	about.uid = tenant->uid;
	journal_control_about(&daemon->journal, &about,
		"%lu lines about user %u's connections were left out", n, tenant->uid);
}

static void tell_server(struct tenant *tenant, unsigned long n)
{
	const struct journal_about about = {
		.has_uid = true,
		.uid = tenant->uid,
		.priority = JOURNAL_WARNING,
	};
	char note[96];

	if (n == 0)
		return;
	snprintf(
		note, sizeof(note), "%lu lines of user %u's servers were left out", n, tenant->uid);
	journal_server(&tenant->daemon->journal, false, &about, note);
}

static void tell(struct tenant *tenant, uint64_t now)
{
	tell_control(tenant->daemon, tenant, line_limit_tell(&tenant->control_lines, now));
	tell_server(tenant, line_limit_tell(&tenant->server_lines, now));
}

void tenant_tell_left_out(struct tenant *tenant)
{
	tell(tenant, UINT64_MAX);
}

static void on_tell(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;
	uint64_t now = uv_now(&daemon->loop);
	unsigned long n_left;

	tell_control(daemon, NULL, line_limit_tell(&daemon->stranger_lines, now));
	n_left = daemon->stranger_lines.n_left_out;
	list_for_each (item, &daemon->tenants) {
		struct tenant *tenant = container_of(item, struct tenant, link);

		tell(tenant, now);
		n_left += tenant->control_lines.n_left_out + tenant->server_lines.n_left_out;
	}
	if (n_left == 0)
		uv_timer_stop(timer);
}

/* Whether one more may be written; what is left out is told of later. */
static int take(struct daemon *daemon, struct line_limit *limit, unsigned size, unsigned per_s)
{
	int r = line_limit_take(limit, uv_now(&daemon->loop), size, per_s);

	if (r != LINE_WRITTEN && !uv_is_active((uv_handle_t *)&daemon->tell_timer))
		uv_timer_start(&daemon->tell_timer, on_tell, TELL_MS, TELL_MS);
	return r;
}

void tenant_log(struct tenant *tenant, const struct journal_about *about, const char *format, ...)
{
	struct daemon *daemon = tenant->daemon;
	char text[LINE_MAX_SIZE];
	int r = LINE_WRITTEN;
	va_list args;

	if (!daemon_trusts(daemon, tenant->uid))
		r = take(daemon, &tenant->control_lines, CONTROL_LINES_MAX, CONTROL_LINES_PER_S);
	if (r == LINE_FIRST_LEFT_OUT)
		journal_control_about(&daemon->journal, about,
			"User %u causes too many lines: the next ones are left out", tenant->uid);
	if (r != LINE_WRITTEN)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	journal_control_about(&daemon->journal, about, "%s", text);
}

void tenant_log_server(
	struct tenant *tenant, bool is_up, const struct journal_about *about, const char *line)
{
	struct journal *journal = &tenant->daemon->journal;
	int r = take(tenant->daemon, &tenant->server_lines, SERVER_LINES_MAX, SERVER_LINES_PER_S);

	if (r == LINE_WRITTEN)
		journal_server(journal, is_up, about, line);
	else if (r == LINE_FIRST_LEFT_OUT)
		journal_server(journal, is_up, about,
			"The next lines are left out: there are too many at once");
}

void daemon_log_stranger(struct daemon *daemon, const char *format, ...)
{
	const struct journal_about about = {.priority = JOURNAL_WARNING};
	char text[LINE_MAX_SIZE];
	va_list args;

	if (take(daemon, &daemon->stranger_lines, CONTROL_LINES_MAX, CONTROL_LINES_PER_S) !=
		LINE_WRITTEN)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	journal_control_about(&daemon->journal, &about, "%s", text);
}
