/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines that users cause. Loop thread.
 *
 * Invariant: the timer runs while there are dropped lines to report.
 */

#include "tenant_log.h"

#include <stdio.h>

#include "daemon.h"
#include "tenant.h"
#include "daemon/text/line_buffer.h"
#include "daemon/config/allowances.h"

#define REPORT_MS 1000

static void report_dropped_control(
	struct daemon *daemon, const struct account *account, unsigned long n)
{
	struct log_subject about = {.priority = JOURNAL_WARNING};

	if (n == 0)
		return;
	if (!account) {
		log_control_about(&daemon->logs, &about,
			"%lu lines about connections that could not be set up were dropped", n);
		return;
	}
	about.has_uid = true;
	about.uid = account->uid;
	log_control_about(&daemon->logs, &about,
		"%lu lines about connections of account %u were dropped", n, account->uid);
}

static void report_dropped_server(
	struct daemon *daemon, const struct account *account, unsigned long n)
{
	const struct log_subject about = {
		.has_uid = true,
		.uid = account->uid,
		.priority = JOURNAL_WARNING,
	};
	char note[96];

	if (n == 0)
		return;
	snprintf(note, sizeof(note), "%lu lines of servers of account %u were dropped", n,
		account->uid);
	log_server(&daemon->logs, false, &about, note);
}

static void report_dropped(struct daemon *daemon, struct account *account, uint64_t now)
{
	report_dropped_control(daemon, account, line_limit_report(&account->control_lines, now));
	report_dropped_server(daemon, account, line_limit_report(&account->server_lines, now));
}

void account_report_dropped(struct daemon *daemon, struct account *account)
{
	report_dropped(daemon, account, UINT64_MAX);
}

static void on_report_timer(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;
	uint64_t now = uv_now(&daemon->loop);
	unsigned long n_left;

	report_dropped_control(daemon, NULL, line_limit_report(&daemon->untenanted_lines, now));
	n_left = daemon->untenanted_lines.n_dropped;
	list_each (struct account, account, &daemon->accounts.all, link) {
		report_dropped(daemon, account, now);
		n_left += account->control_lines.n_dropped + account->server_lines.n_dropped;
	}
	if (n_left == 0)
		uv_timer_stop(timer);
}

/* Whether another line may be written; a dropped line is reported later. */
static int take_line_allowance(
	struct daemon *daemon, struct line_limit *limit, unsigned size, unsigned per_s)
{
	int r = line_limit_take(limit, uv_now(&daemon->loop), size, per_s);

	if (r != LINE_WRITTEN && !uv_is_active((uv_handle_t *)&daemon->report_timer))
		uv_timer_start(&daemon->report_timer, on_report_timer, REPORT_MS, REPORT_MS);
	return r;
}

void tenant_log(struct tenant *tenant, const struct log_subject *about, const char *format, ...)
{
	struct daemon *daemon = tenant->daemon;
	char text[LINE_MAX_SIZE];
	int r = LINE_WRITTEN;

	if (!daemon_trusts(daemon, tenant->uid))
		r = take_line_allowance(daemon, &tenant->account->control_lines, CONTROL_LINES_MAX,
			CONTROL_LINES_PER_S);
	if (r == LINE_FIRST_DROPPED)
		log_control_about(&daemon->logs, about,
			"Account %u causes too many lines: dropping the next ones",
			tenant->account->uid);
	if (r != LINE_WRITTEN)
		return;
	format_arguments(text, format);
	log_control_about(&daemon->logs, about, "%s", text);
}

void tenant_log_server(
	struct tenant *tenant, bool is_up, const struct log_subject *about, const char *line)
{
	struct log_files *logs = &tenant->daemon->logs;
	int r = take_line_allowance(tenant->daemon, &tenant->account->server_lines,
		SERVER_LINES_MAX, SERVER_LINES_PER_S);

	if (r == LINE_WRITTEN)
		log_server(logs, is_up, about, line);
	else if (r == LINE_FIRST_DROPPED)
		log_server(logs, is_up, about, "Too many lines at once: dropping the next ones");
}

void log_without_tenant(struct daemon *daemon, const char *format, ...)
{
	const struct log_subject about = {.priority = JOURNAL_WARNING};
	char text[LINE_MAX_SIZE];

	if (take_line_allowance(daemon, &daemon->untenanted_lines, CONTROL_LINES_MAX,
		    CONTROL_LINES_PER_S) != LINE_WRITTEN)
		return;
	format_arguments(text, format);
	log_control_about(&daemon->logs, &about, "%s", text);
}
