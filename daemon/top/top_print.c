/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table as text and as JSON. Any thread.
 *
 * Invariant: JSON has the names as they are, text has only printable characters.
 */

#include "top_print.h"

#include "daemon/text/json.h"

/* The shown rows in their order; NULL: no memory. */
static const struct top_row **sorted_rows(
	struct top_view *view, const struct top_table *table, size_t *ret_n)
{
	const struct top_row **rows = calloc(MAX(table->n_rows, (size_t)1), sizeof(void *));

	if (rows)
		*ret_n = top_view_rows(view, table, rows);
	return rows;
}

int top_print_text(struct top_view *view, const struct top_table *table, unsigned n_columns)
{
	size_t n = 0;
	_cleanup_free_ const struct top_row **rows = sorted_rows(view, table, &n);
	struct top_layout layout;
	struct top_line line;

	if (!rows)
		return -ENOMEM;
	top_layout_init(&layout, n_columns, top_table_has_away(table) ? TOP_WITH_AWAY : 0);
	top_column_header(&layout, &line);
	puts(line.text);
	for (size_t i = 0; i < n; i++) {
		top_column_row(&layout, rows[i], table->sample.time_ns, &line);
		puts(line.text);
	}
	return 0;
}

static json_t *amount_json(double amount)
{
	return json_integer((json_int_t)MIN(amount, 9e18));
}

/* To a thousandth: small rates need decimals. */
static json_t *rate_json(double rate)
{
	if (rate >= UINT32_MAX / 1000)
		return amount_json(rate);
	return json_real((double)(uint32_t)(rate * 1000 + 0.5) / 1000);
}

static json_t *row_json(const struct top_row *row)
{
	const struct top_client *client = &row->client;
	json_t *object = json_pack("{s:o s:o s:o s:o s:o s:o s:o s:o}", "pid",
		json_integer(client->pid), "server", json_integer(client->server), "server_name",
		json_text(client->server_name), "client", json_integer(client->id), "uid",
		json_integer(client->uid), "user", json_text(row->user), "group",
		json_text(client->group), "command", json_text(client->command));

	json_set(&object, "kernel", json_text(client->kernel));
	json_set(&object, "memory", json_amount(client->memory));
	json_set(&object, "away", json_amount(client->away));
	json_set(&object, "sm_share",
		client->n_device_sms > 0
			? rate_json((double)client->n_sms / (double)client->n_device_sms)
			: json_null());
	json_set(&object, "launches_per_s", rate_json(row->launches));
	json_set(&object, "copies_per_s", rate_json(row->copies));
	json_set(&object, "bytes_in_per_s", amount_json(row->bytes_in));
	json_set(&object, "bytes_out_per_s", amount_json(row->bytes_out));
	json_set(&object, "busy_share", rate_json(row->busy));
	json_set(&object, "slowdown",
		client->slowdown > 0 ? rate_json(client->slowdown) : json_null());
	json_set(&object, "yielded_share", rate_json(row->yielded));
	json_set(&object, "errors", json_amount(client->errors));
	return object;
}

int top_print_json(struct top_view *view, const struct top_table *table)
{
	size_t n = 0;
	_cleanup_free_ const struct top_row **rows = sorted_rows(view, table, &n);
	_cleanup_free_ char *text = NULL;
	json_t *clients = json_array();

	for (size_t i = 0; i < n; i++)
		json_add(&clients, row_json(rows[i]));
	text = json_write(json_pack("{s:o s:o s:o}", "time_ns", json_amount(table->sample.time_ns),
		"interval_ns", json_amount(table->interval_ns), "clients", clients));
	if (!rows || !text)
		return -ENOMEM;
	puts(text);
	return 0;
}
