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
	top_layout_init(&layout, n_columns, false);
	top_column_header(&layout, &line);
	puts(line.text);
	for (size_t i = 0; i < n; i++) {
		top_column_row(&layout, rows[i], table->sample.time_ns, &line);
		puts(line.text);
	}
	return 0;
}

static void put_amount(struct json *json, const char *name, double amount)
{
	json_number(json, name, (int64_t)MIN(amount, 9e18));
}

/* Small rates need decimals, and large ones do not fit. */
static void put_rate(struct json *json, const char *name, double rate)
{
	if (rate < UINT32_MAX / 1000)
		json_thousandths(json, name, (uint32_t)(rate * 1000 + 0.5));
	else
		put_amount(json, name, rate);
}

static void put_rates(struct json *json, const struct top_row *row)
{
	put_rate(json, "launches_per_s", row->launches);
	put_rate(json, "copies_per_s", row->copies);
	put_amount(json, "bytes_in_per_s", row->bytes_in);
	put_amount(json, "bytes_out_per_s", row->bytes_out);
	put_rate(json, "busy_share", row->busy);
}

static void put_row(struct json *json, const struct top_row *row)
{
	const struct top_client *client = &row->client;

	json_open(json, NULL, '{');
	json_number(json, "pid", client->pid);
	json_number(json, "server", client->server);
	json_number(json, "client", client->id);
	json_number(json, "uid", client->uid);
	json_string(json, "user", row->user);
	if (client->group)
		json_string(json, "group", client->group);
	else
		json_null(json, "group");
	json_string(json, "command", client->command);
	put_amount(json, "memory", (double)client->memory);
	if (client->n_device_sms > 0)
		put_rate(json, "sm_share", (double)client->n_sms / (double)client->n_device_sms);
	else
		json_null(json, "sm_share");
	put_rates(json, row);
	put_amount(json, "errors", (double)client->errors);
	json_close(json, '}');
}

int top_print_json(struct top_view *view, const struct top_table *table)
{
	size_t n = 0;
	_cleanup_free_ const struct top_row **rows = sorted_rows(view, table, &n);
	_cleanup_(json_fini) struct json json = {0};

	if (!rows)
		return -ENOMEM;
	json_open(&json, NULL, '{');
	put_amount(&json, "time_ns", (double)table->sample.time_ns);
	put_amount(&json, "interval_ns", (double)table->interval_ns);
	json_open(&json, "clients", '[');
	for (size_t i = 0; i < n; i++)
		put_row(&json, rows[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	if (json.failed)
		return -ENOMEM;
	puts(json.text);
	return 0;
}
