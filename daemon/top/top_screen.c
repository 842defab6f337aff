/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The terminal of top. One thread.
 *
 * Invariant: all foreign text reaches ncurses through a top_line.
 */

#include "top_screen.h"

#include <ncurses.h>
#include <sys/ioctl.h>
#include <term.h>
#include <time.h>

#include "daemon/text/amount.h"

/* Lines above the rows: two of sums, one of messages, the titles. One below: the keys. */
enum {
	LINE_SUMMARY,
	LINE_SUMS,
	LINE_MESSAGE,
	LINE_TITLES,
	LINE_FIRST,
};
#define LINES_OTHER (LINE_FIRST + 1)

/* After Escape, a terminal over a slow connection has so long to send the rest of a key. */
#define ESCAPE_MS 100

#define KEYS "q quit  ? keys  / filter  < > sort  r reverse"

static SCREEN *screen;

/* ---- the terminal */

bool top_screen_is_possible(void)
{
	int error;
	bool can_move;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return false;
	if (setupterm(NULL, STDOUT_FILENO, &error) != OK)
		return false;
	can_move = cursor_address != NULL;
	del_curterm(cur_term);
	return can_move;
}

int top_screen_open(void)
{
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -ENOTTY;
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	return 0;
}

void top_screen_close(void)
{
	endwin();
	delscreen(screen);
	screen = NULL;
}

void top_screen_suspend(void)
{
	def_prog_mode();
	endwin();
}

void top_screen_resume(void)
{
	reset_prog_mode();
	/* The size may have changed meanwhile. */
	top_screen_resize();
	clearok(stdscr, TRUE);
	curs_set(0);
}

void top_screen_resize(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		resizeterm(size.ws_row, size.ws_col);
	clearok(stdscr, TRUE);
}

int top_screen_key(void)
{
	static const struct {
		int theirs;
		enum top_key ours;
	} keys[] = {
		{KEY_LEFT, TOP_KEY_LEFT},
		{KEY_RIGHT, TOP_KEY_RIGHT},
		{KEY_UP, TOP_KEY_UP},
		{KEY_DOWN, TOP_KEY_DOWN},
		{KEY_PPAGE, TOP_KEY_PAGE_UP},
		{KEY_NPAGE, TOP_KEY_PAGE_DOWN},
		{KEY_HOME, TOP_KEY_HOME},
		{KEY_END, TOP_KEY_END},
		{KEY_BACKSPACE, TOP_KEY_BACKSPACE},
	};
	int key = getch();

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (key == keys[i].theirs)
			return (int)keys[i].ours;
	if (key == ERR)
		return -1;
	/* Other keys of ncurses do nothing. */
	return key < 256 ? key : 0;
}

/* ---- lines */

static struct top_line *begin_line(struct top_line *line)
{
	top_line_init(line, (unsigned)COLS);
	return line;
}

static void show_line(int y, const struct top_line *line, attr_t attributes)
{
	if (y >= LINES)
		return;
	attrset((int)attributes);
	mvaddstr(y, 0, line->text);
	attrset(A_NORMAL);
}

static void draw_summary(const struct top_picture *picture)
{
	const struct top_table *table = picture->table;
	struct top_line line;
	time_t now = time(NULL);
	struct tm tm;
	char clock[16] = "";

	if (localtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	begin_line(&line);
	top_line_printf(&line, "mps top  %s  every %g s  %zu client%s  by %s%s  %s", clock,
		picture->interval_s, table->n_rows, table->n_rows == 1 ? "" : "s",
		top_column_title(picture->view->sort),
		picture->view->is_reversed ? " reversed" : "", picture->socket_path);
	show_line(LINE_SUMMARY, &line, A_BOLD);
}

/* Evicted memory; nothing if there is none. */
static void add_store(struct top_line *line, const struct top_sample *sample)
{
	char used[AMOUNT_TEXT], limit[AMOUNT_TEXT];

	if (sample->store == 0)
		return;
	amount_text(sample->store, 1024, used);
	amount_text(sample->store_limit, 1024, limit);
	top_line_printf(line, "  %s of %s store", used, limit);
}

static void draw_sums(const struct top_table *table)
{
	double launches = 0, copies = 0, in = 0, out = 0;
	char texts[5][AMOUNT_TEXT];
	uint64_t memory = 0;
	struct top_line line;

	for (size_t i = 0; i < table->n_rows; i++) {
		launches += table->rows[i].launches;
		copies += table->rows[i].copies;
		in += table->rows[i].bytes_in;
		out += table->rows[i].bytes_out;
		memory += table->rows[i].client.memory;
	}
	amount_text((uint64_t)launches, 1000, texts[0]);
	amount_text((uint64_t)copies, 1000, texts[1]);
	amount_text((uint64_t)in, 1024, texts[2]);
	amount_text((uint64_t)out, 1024, texts[3]);
	amount_text(memory, 1024, texts[4]);
	begin_line(&line);
	top_line_printf(&line, "all: %s launches/s  %s copies/s  %s B/s in  %s B/s out  %s memory",
		texts[0], texts[1], texts[2], texts[3], texts[4]);
	add_store(&line, &table->sample);
	show_line(LINE_SUMS, &line, A_NORMAL);
}

static void draw_message(const struct top_picture *picture, size_t n_rows)
{
	const struct top_view *view = picture->view;
	struct top_line line;

	begin_line(&line);
	if (view->is_typing)
		top_line_printf(&line, "filter: %s_", view->filter);
	else if (*picture->trouble)
		top_line_printf(&line, "no samples: %s", picture->trouble);
	else if (*view->filter)
		top_line_printf(&line, "filter: %s (%zu of %zu clients)", view->filter, n_rows,
			picture->table->n_rows);
	show_line(LINE_MESSAGE, &line, *picture->trouble ? A_BOLD | A_REVERSE : A_BOLD);
}

static void draw_titles(const struct top_layout *layout, const struct top_view *view)
{
	unsigned offset = top_layout_offset(layout, view->sort);
	struct top_line line;

	if (LINE_TITLES >= LINES)
		return;
	top_column_header(layout, &line);
	show_line(LINE_TITLES, &line, A_REVERSE);
	mvchgat(LINE_TITLES, 0, -1, A_REVERSE, 0, NULL);
	if (layout->widths[view->sort] > 0)
		mvchgat(LINE_TITLES, (int)offset, (int)layout->widths[view->sort],
			A_REVERSE | A_BOLD | A_UNDERLINE, 0, NULL);
}

static void draw_keys(void)
{
	struct top_line line;

	top_line_printf(begin_line(&line), KEYS);
	show_line(LINES - 1, &line, A_DIM);
}

/* ---- the two pages */

/* In lines that fit into the narrowest usual terminal. Returns the next line. */
static int draw_sort_keys(int y)
{
	struct top_line line;
	unsigned n = 0;

	begin_line(&line);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (!top_column_key(i))
			continue;
		top_line_printf(&line, "%c %-10s", top_column_key(i), top_column_title(i));
		if (++n != 6 && i < TOP_COMMAND)
			continue;
		show_line(y++, &line, A_BOLD);
		begin_line(&line);
	}
	return y;
}

static void draw_help(void)
{
	static const char *const texts[] = {
		"? h       these keys; any key goes back",
		"q Ctrl-C  quit",
		"/ f       filter: rows whose user, group, kernel, command or PID has the text",
		"          Enter keeps the filter, Escape removes it",
		"< >       sort by the column to the left, to the right (also arrows)",
		"r         reverse the order",
		"space     take a sample now",
		"arrows, Page Up, Page Down, Home, End   move through the rows",
		"",
		"Sort by a column; the same key again reverses the order:",
	};
	static const char *const meanings[] = {
		"",
		"SM%       the share of the SMs that the client may use at present",
		"SLOW%     how much slower it is beside background clients",
		"YIELD%    what a background client leaves to others, of a GPU",
		"MEM       memory of all its GPUs      ERR     calls that returned an error",
		"AWAY      ... that is in host memory, as others need the GPU",
		"BUSY%     time with work on a GPU     60 SEC  the last minute of BUSY%",
		"KERNEL    launched last, or (graph)",
	};
	struct top_line line;
	int y = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		top_line_printf(begin_line(&line), "%s", texts[i]);
		show_line(y++, &line, A_NORMAL);
	}
	y = draw_sort_keys(y);
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		top_line_printf(begin_line(&line), "%s", meanings[i]);
		show_line(y++, &line, A_NORMAL);
	}
}

static int draw_table(const struct top_picture *picture)
{
	const struct top_table *table = picture->table;
	_cleanup_free_ const struct top_row **rows =
		calloc(MAX(table->n_rows, (size_t)1), sizeof(void *));
	struct top_view *view = picture->view;
	struct top_layout layout;
	struct top_line line;
	size_t n;

	if (!rows)
		return -ENOMEM;
	view->n_page = (size_t)MAX(LINES - LINES_OTHER, 0);
	n = top_view_rows(view, table, rows);
	top_layout_init(&layout, (unsigned)COLS,
		TOP_WITH_GRAPH | (top_table_has_away(table) ? TOP_WITH_AWAY : 0));
	draw_summary(picture);
	draw_sums(table);
	draw_message(picture, n);
	draw_titles(&layout, view);
	for (size_t i = view->first; i < MIN(n, view->first + view->n_page); i++) {
		top_column_row(&layout, rows[i], table->sample.time_ns, &line);
		show_line(LINE_FIRST + (int)(i - view->first), &line,
			*picture->trouble ? A_DIM : A_NORMAL);
	}
	draw_keys();
	return 0;
}

int top_screen_draw(const struct top_picture *picture)
{
	int r = 0;

	erase();
	if (picture->view->has_help)
		draw_help();
	else
		r = draw_table(picture);
	refresh();
	return r;
}
