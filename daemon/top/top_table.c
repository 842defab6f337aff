/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows of clients. Any thread.
 *
 * Invariant: a rate is the difference of two samples of the same client, divided by the time
 * between them on the daemon's machine. A client that came between two samples had done nothing
 * before.
 */

#include "top_table.h"

#include <pwd.h>
#include <string.h>

static int compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_rows(const void *a, const void *b)
{
	const struct top_client *x = &((const struct top_row *)a)->client;
	const struct top_client *y = &((const struct top_row *)b)->client;
	int r = compare_numbers(x->server, y->server);

	if (r == 0)
		r = compare_numbers(x->id, y->id);
	return r ? r : compare_numbers(x->pid, y->pid);
}

static const struct top_row *find_row(const struct top_table *table, const struct top_row *row)
{
	if (table->n_rows == 0)
		return NULL;
	return bsearch(row, table->rows, table->n_rows, sizeof(*row), compare_rows);
}

/* Counters only rise. If a server reports a lower value, the rate is 0. */
static double rate_of(uint64_t now, uint64_t before, double seconds)
{
	return now > before ? (double)(now - before) / seconds : 0;
}

static void set_rates(
	struct top_row *row, const struct top_client *before, uint64_t from_ns, uint64_t to_ns)
{
	const struct top_client *now = &row->client;
	double seconds = (double)(to_ns - from_ns) * 1e-9;

	row->has_rates = true;
	row->launches = rate_of(now->launches, before->launches, seconds);
	row->copies = rate_of(now->copies, before->copies, seconds);
	row->bytes_in = rate_of(now->bytes_in, before->bytes_in, seconds);
	row->bytes_out = rate_of(now->bytes_out, before->bytes_out, seconds);
	/* Server and daemon look at different times: the share may come out above 1. */
	row->busy = MIN(rate_of(now->busy_ns, before->busy_ns, seconds * 1e9), 1.0);
	row->yielded = rate_of(now->yielded_ns, before->yielded_ns, seconds * 1e9);
	top_history_add(&row->history, from_ns, to_ns, row->busy);
}

/* A database of users on a network is slow, so each name is looked up once. */
static void set_user(struct top_row *row, const struct top_row *rows, size_t n)
{
	const struct passwd *entry;

	for (size_t i = 0; i < n; i++)
		if (rows[i].client.uid == row->client.uid && rows[i].user[0]) {
			memcpy(row->user, rows[i].user, sizeof(row->user));
			return;
		}
	entry = getpwuid(row->client.uid);
	if (entry)
		snprintf(row->user, sizeof(row->user), "%s", entry->pw_name);
	else
		snprintf(row->user, sizeof(row->user), "%u", row->client.uid);
}

static void set_kernel(struct top_row *row)
{
	const char *name = row->client.kernel;
	struct demangled demangled;

	snprintf(row->kernel, sizeof(row->kernel), "%s", name ? demangle(&demangled, name) : "-");
}

/* A row of the new sample, from the row of the same client in the old one if there is one. */
static void make_row(struct top_row *row, const struct top_table *old, uint64_t time_ns)
{
	static const struct top_client nothing;
	const struct top_row *before = find_row(old, row);
	uint64_t from_ns = old->sample.time_ns;

	if (before) {
		memcpy(row->user, before->user, sizeof(row->user));
		row->history = before->history;
	}
	if (from_ns > 0 && time_ns > from_ns)
		set_rates(row, before ? &before->client : &nothing, from_ns, time_ns);
}

int top_table_update(struct top_table *table, struct top_sample *sample)
{
	struct top_sample mine = *sample;
	size_t n = mine.n_clients;
	struct top_row *rows = calloc(MAX(n, (size_t)1), sizeof(*rows));
	uint64_t before_ns = table->sample.time_ns;

	*sample = (struct top_sample){0};
	if (!rows) {
		top_sample_fini(&mine);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		rows[i].client = mine.clients[i];
		set_kernel(&rows[i]);
		make_row(&rows[i], table, mine.time_ns);
	}
	for (size_t i = 0; i < n; i++)
		if (!rows[i].user[0])
			set_user(&rows[i], rows, n);
	qsort(rows, n, sizeof(*rows), compare_rows);
	top_table_fini(table);
	table->interval_ns =
		before_ns > 0 && mine.time_ns > before_ns ? mine.time_ns - before_ns : 0;
	table->rows = rows;
	table->n_rows = n;
	table->sample = mine;
	return 0;
}

void top_table_fini(struct top_table *table)
{
	top_sample_fini(&table->sample);
	free(table->rows);
	*table = (struct top_table){0};
}

bool top_table_has_away(const struct top_table *table)
{
	for (size_t i = 0; i < table->n_rows; i++)
		if (table->rows[i].client.away > 0)
			return true;
	return false;
}
