/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The user's view of the table. Any thread.
 *
 * Invariant: the filter contains printable characters and bytes above ASCII only.
 */

#include "top_view.h"

#include <string.h>

#define ESCAPE 27
#define CTRL_L 12
#define CTRL_U 21
#define BACKSPACE 8
#define DELETE 127

void top_view_init(struct top_view *view)
{
	*view = (struct top_view){.sort = TOP_BUSY, .n_page = 1};
}

/* ---- keys */

static bool is_enter(int key)
{
	return key == '\r' || key == '\n';
}

/* Removes a whole character, of one or more bytes. */
static void erase_character(char *filter)
{
	size_t length = strlen(filter);

	while (length > 0 && ((unsigned char)filter[length - 1] & 0xc0) == 0x80)
		length--;
	filter[length > 0 ? length - 1 : 0] = '\0';
}

static void type_key(struct top_view *view, int key)
{
	size_t length = strlen(view->filter);

	if (is_enter(key)) {
		view->is_typing = false;
	} else if (key == ESCAPE) {
		view->is_typing = false;
		view->filter[0] = '\0';
	} else if (key == TOP_KEY_BACKSPACE || key == BACKSPACE || key == DELETE) {
		erase_character(view->filter);
	} else if (key == CTRL_U) {
		view->filter[0] = '\0';
	} else if (key >= ' ' && key < 256 && length + 1 < sizeof(view->filter)) {
		view->filter[length] = (char)key;
		view->filter[length + 1] = '\0';
	}
}

static bool can_sort(enum top_column column)
{
	return top_column_key(column) != 0;
}

static void sort_by_neighbour(struct top_view *view, unsigned step)
{
	do
		view->sort = (view->sort + step) % TOP_COLUMNS;
	while (!can_sort(view->sort));
}

/* The same key again turns the order round. */
static void sort_by_key(struct top_view *view, int key)
{
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (!can_sort(i) || top_column_key(i) != key)
			continue;
		view->is_reversed = view->sort == i && !view->is_reversed;
		view->sort = i;
	}
}

/* top_view_rows() bounds the result. */
static bool scroll(struct top_view *view, int key)
{
	size_t page = MAX(view->n_page, (size_t)1);

	switch (key) {
	case TOP_KEY_UP:
		view->first -= MIN(view->first, (size_t)1);
		return true;
	case TOP_KEY_DOWN:
		view->first++;
		return true;
	case TOP_KEY_PAGE_UP:
		view->first -= MIN(view->first, page);
		return true;
	case TOP_KEY_PAGE_DOWN:
		view->first += page;
		return true;
	case TOP_KEY_HOME:
		view->first = 0;
		return true;
	case TOP_KEY_END:
		view->first = SIZE_MAX / 2;
		return true;
	default:
		return false;
	}
}

static enum top_view_action press_command(struct top_view *view, int key)
{
	switch (key) {
	case 'q':
		return TOP_QUIT;
	case ' ':
	case CTRL_L:
		return TOP_SAMPLE;
	case '?':
	case 'h':
		view->has_help = true;
		break;
	case '/':
	case 'f':
		view->is_typing = true;
		break;
	case ESCAPE:
		view->filter[0] = '\0';
		break;
	case 'r':
		view->is_reversed = !view->is_reversed;
		break;
	case '<':
	case TOP_KEY_LEFT:
		sort_by_neighbour(view, TOP_COLUMNS - 1);
		break;
	case '>':
	case TOP_KEY_RIGHT:
		sort_by_neighbour(view, 1);
		break;
	default:
		if (!scroll(view, key))
			sort_by_key(view, key);
	}
	return TOP_REDRAW;
}

enum top_view_action top_view_press(struct top_view *view, int key)
{
	if (view->has_help) {
		view->has_help = false;
		return key == 'q' ? TOP_QUIT : TOP_REDRAW;
	}
	if (!view->is_typing)
		return press_command(view, key);
	type_key(view, key);
	return TOP_REDRAW;
}

/* ---- rows */

bool top_view_shows(const struct top_view *view, const struct top_row *row)
{
	const struct top_client *client = &row->client;
	char pid[24];

	snprintf(pid, sizeof(pid), "%lld", (long long)client->pid);
	return strcasestr(client->command, view->filter) || strcasestr(row->user, view->filter) ||
	       strcasestr(pid, view->filter) || strcasestr(row->kernel, view->filter) ||
	       (client->group && strcasestr(client->group, view->filter));
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct top_view *view = arg;
	int r = top_column_compare(
		view->sort, *(const struct top_row *const *)a, *(const struct top_row *const *)b);

	return view->is_reversed ? -r : r;
}

size_t top_view_rows(
	struct top_view *view, const struct top_table *table, const struct top_row **rows)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_rows; i++)
		if (top_view_shows(view, &table->rows[i]))
			rows[n++] = &table->rows[i];
	qsort_r(rows, n, sizeof(void *), compare, view);
	view->first = MIN(view->first, n - MIN(n, view->n_page));
	return n;
}
