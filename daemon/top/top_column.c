/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The columns of the table. Any thread.
 *
 * Invariant: the columns that are shown and the blanks between them fit into the terminal, unless
 * it has less room than the name of a command needs.
 */

#include "top_column.h"

#include <string.h>

#include "top_kernel.h"
#include "daemon/text/amount.h"

#define GRAPH_MAX 30
#define KERNEL_MAX 40
#define GROUP_MAX 24

/* `rank': the columns of a high one are left out first. Those of numbers are aligned right. */
static const struct {
	const char *title;
	unsigned width, rank;
	bool is_number;
	char key;
} columns[TOP_COLUMNS] = {
	[TOP_PID] = {"PID", 7, 1, true, 'p'},
	[TOP_USER] = {"USER", 8, 6, false, 'u'},
	[TOP_GROUP] = {"GROUP", 7, 12, false, 'g'},
	[TOP_SMS] = {"SM%", 3, 7, true, 's'},
	[TOP_MEMORY] = {"MEM", 5, 3, true, 'm'},
	[TOP_AWAY] = {"AWAY", 5, 4, true, 0},
	[TOP_LAUNCHES] = {"LAUNCH/s", 8, 5, true, 'l'},
	[TOP_COPIES] = {"COPY/s", 6, 11, true, 'c'},
	[TOP_IN] = {"IN/s", 5, 13, true, 'i'},
	[TOP_OUT] = {"OUT/s", 5, 14, true, 'o'},
	[TOP_BUSY] = {"BUSY%", 5, 2, true, 'b'},
	[TOP_SLOWDOWN] = {"SLOW%", 5, 15, true, 'w'},
	[TOP_YIELDED] = {"YIELD%", 6, 16, true, 'y'},
	[TOP_ERRORS] = {"ERR", 5, 8, true, 'e'},
	[TOP_GRAPH] = {"60 SEC", 8, 10, false, 0},
	[TOP_KERNEL] = {"KERNEL", 14, 9, false, 'k'},
	[TOP_COMMAND] = {"COMMAND", 8, 0, false, 'n'},
};

/* ---- which columns */

static enum top_column column_of_rank(unsigned rank)
{
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		if (columns[i].rank == rank)
			return i;
	return TOP_COMMAND;
}

static void widen(struct top_layout *layout, enum top_column column, unsigned more, unsigned most)
{
	if (layout->widths[column] > 0)
		layout->widths[column] += MIN(more, most - columns[column].width);
}

void top_layout_init(struct top_layout *layout, unsigned n_columns, unsigned options)
{
	unsigned left = MIN(n_columns, TOP_COLUMNS_MAX);

	*layout = (struct top_layout){.n_columns = left};
	for (unsigned rank = 0; rank < TOP_COLUMNS; rank++) {
		enum top_column column = column_of_rank(rank);
		unsigned width = columns[column].width + (rank > 0); /* and a blank */

		if ((column == TOP_GRAPH && !(options & TOP_WITH_GRAPH)) ||
			(column == TOP_AWAY && !(options & TOP_WITH_AWAY)))
			continue;
		if (rank > 0 && width > left)
			break;
		layout->widths[column] = columns[column].width;
		left -= MIN(width, left);
	}
	widen(layout, TOP_GRAPH, left / 2, GRAPH_MAX);
	widen(layout, TOP_KERNEL, left / 4, KERNEL_MAX);
	widen(layout, TOP_GROUP, left / 8, GROUP_MAX);
	/* The command is last, and gets what is left. */
	layout->widths[TOP_COMMAND] = 0;
	layout->widths[TOP_COMMAND] =
		layout->n_columns - MIN(top_layout_offset(layout, TOP_COMMAND), layout->n_columns);
}

unsigned top_layout_offset(const struct top_layout *layout, enum top_column column)
{
	unsigned offset = 0;

	for (unsigned i = 0; i < column; i++)
		if (layout->widths[i] > 0)
			offset += layout->widths[i] + 1;
	return offset;
}

const char *top_column_title(enum top_column column)
{
	return columns[column].title;
}

char top_column_key(enum top_column column)
{
	return columns[column].key;
}

static void put_cell(struct top_line *line, const struct top_layout *layout, enum top_column column,
	const char *text)
{
	if (layout->widths[column] == 0)
		return;
	if (column == TOP_COMMAND)
		top_line_put(line, text, layout->widths[column]);
	else if (columns[column].is_number)
		top_line_put_right(line, text, layout->widths[column]);
	else
		top_line_put_left(line, text, layout->widths[column]);
	if (column != TOP_COMMAND)
		top_line_put(line, " ", 1);
}

void top_column_header(const struct top_layout *layout, struct top_line *line)
{
	top_line_init(line, layout->n_columns);
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		put_cell(line, layout, i, columns[i].title);
}

/* ---- a row */

static void percentage_text(double share, char text[AMOUNT_TEXT])
{
	snprintf(text, AMOUNT_TEXT, "%.0f", MIN(share, 1) * 100);
}

static void rate_text(double rate, unsigned step, char text[AMOUNT_TEXT])
{
	if (rate > 0 && rate < 9.95)
		snprintf(text, AMOUNT_TEXT, "%.1f", rate);
	else
		amount_text((uint64_t)(MIN(rate, 1e19) + 0.5), step, text);
}

static bool is_rate(enum top_column column)
{
	return column == TOP_LAUNCHES || column == TOP_COPIES || column == TOP_IN ||
	       column == TOP_OUT || column == TOP_BUSY || column == TOP_YIELDED;
}

/* The text of a column of numbers; "-" if it is unknown. */
static void number_text(const struct top_row *row, enum top_column column, char text[AMOUNT_TEXT])
{
	const struct top_client *client = &row->client;

	snprintf(text, AMOUNT_TEXT, "-");
	if (is_rate(column) && !row->has_rates)
		return;
	if (column == TOP_PID)
		snprintf(text, AMOUNT_TEXT, "%u", (unsigned)MIN(client->pid, 9999999));
	else if (column == TOP_SMS && client->n_device_sms > 0)
		percentage_text((double)client->n_sms / (double)client->n_device_sms, text);
	else if (column == TOP_MEMORY)
		amount_text(client->memory, 1024, text);
	else if (column == TOP_AWAY)
		amount_text(client->away, 1024, text);
	else if (column == TOP_LAUNCHES)
		rate_text(row->launches, 1000, text);
	else if (column == TOP_COPIES)
		rate_text(row->copies, 1000, text);
	else if (column == TOP_IN)
		rate_text(row->bytes_in, 1024, text);
	else if (column == TOP_OUT)
		rate_text(row->bytes_out, 1024, text);
	else if (column == TOP_BUSY)
		percentage_text(row->busy, text);
	else if (column == TOP_SLOWDOWN && client->slowdown > 0)
		snprintf(text, AMOUNT_TEXT, "%.0f", MIN(MAX(client->slowdown - 1, 0), 9.99) * 100);
	else if (column == TOP_YIELDED && client->is_background)
		percentage_text(row->yielded, text);
	else if (column == TOP_ERRORS)
		amount_text(client->errors, 1000, text);
}

static void put_graph(struct top_line *line, const struct top_layout *layout,
	const struct top_row *row, uint64_t now_ns)
{
	unsigned width = layout->widths[TOP_GRAPH];
	bool is_utf8 = top_text_is_utf8();

	for (unsigned i = 0; i < width; i++)
		top_line_put(line,
			top_history_glyph(
				top_history_level(&row->history, now_ns, i, width), is_utf8),
			1);
	if (width > 0)
		top_line_put(line, " ", 1);
}

/* Only the function's own name if the whole one does not fit. */
static void put_kernel(struct top_line *line, const struct top_layout *layout, const char *kernel)
{
	unsigned width = layout->widths[TOP_KERNEL];
	struct top_kernel_name name = {kernel, strlen(kernel)};
	char text[DEMANGLED_MAX];

	if (top_text_columns(kernel, width + 1) > width)
		name = top_kernel_name(kernel);
	snprintf(text, sizeof(text), "%.*s", (int)name.size, name.text);
	put_cell(line, layout, TOP_KERNEL, text);
}

/* Without its folders if they do not fit. */
static const char *command_text(const char *command, unsigned n_columns)
{
	const char *slash = strrchr(command, '/');
	bool fits = top_text_columns(command, n_columns + 1) <= n_columns;

	return fits || !slash || !slash[1] ? command : slash + 1;
}

static const char *name_text(
	const struct top_row *row, const struct top_layout *layout, enum top_column column)
{
	switch (column) {
	case TOP_USER:
		return row->user;
	case TOP_GROUP:
		return row->client.group ? row->client.group : "-";
	default:
		return command_text(row->client.command, layout->widths[TOP_COMMAND]);
	}
}

void top_column_row(const struct top_layout *layout, const struct top_row *row, uint64_t now_ns,
	struct top_line *line)
{
	char text[AMOUNT_TEXT];

	top_line_init(line, layout->n_columns);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (i == TOP_GRAPH) {
			put_graph(line, layout, row, now_ns);
		} else if (i == TOP_KERNEL) {
			put_kernel(line, layout, row->kernel);
		} else if (columns[i].is_number) {
			number_text(row, i, text);
			put_cell(line, layout, i, text);
		} else {
			put_cell(line, layout, i, name_text(row, layout, i));
		}
	}
}

/* ---- order */

static double amount_of(enum top_column column, const struct top_row *row)
{
	const struct top_client *client = &row->client;

	switch (column) {
	case TOP_SMS:
		return client->n_device_sms > 0
			       ? (double)client->n_sms / (double)client->n_device_sms
			       : -1;
	case TOP_MEMORY:
		return (double)client->memory;
	case TOP_LAUNCHES:
		return row->launches;
	case TOP_COPIES:
		return row->copies;
	case TOP_IN:
		return row->bytes_in;
	case TOP_OUT:
		return row->bytes_out;
	case TOP_BUSY:
		return row->busy;
	case TOP_SLOWDOWN:
		return client->slowdown;
	case TOP_YIELDED:
		return row->yielded;
	case TOP_ERRORS:
		return (double)client->errors;
	default:
		return 0;
	}
}

static const char *name_of(enum top_column column, const struct top_row *row)
{
	switch (column) {
	case TOP_USER:
		return row->user;
	case TOP_GROUP:
		/* After all names. */
		return row->client.group ? row->client.group : "\xff";
	case TOP_KERNEL:
		return row->kernel;
	case TOP_COMMAND:
		return row->client.command;
	default:
		return "";
	}
}

int top_column_compare(enum top_column column, const struct top_row *a, const struct top_row *b)
{
	double x = amount_of(column, a), y = amount_of(column, b);
	int r = (x < y) - (x > y);

	if (r == 0)
		r = strcmp(name_of(column, a), name_of(column, b));
	if (r == 0)
		r = (a->client.pid > b->client.pid) - (a->client.pid < b->client.pid);
	/* Rows are in the order of the clients' names. */
	return r ? r : (a > b) - (a < b);
}
