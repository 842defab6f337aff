/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

/*
 * The terminal, by ncurses. One thread. The signals that ncurses would handle have to be blocked
 * before top_screen_open().
 */

#include "top_table.h"
#include "top_view.h"

/* Whether input and output are a terminal whose cursor can be moved. */
bool top_screen_is_possible(void);

/* 0 or -ENOTTY. */
int top_screen_open(void);

/* Restores the terminal. */
void top_screen_close(void);

/* Restores the terminal for the shell, until top_screen_resume() draws everything again. */
void top_screen_suspend(void);
void top_screen_resume(void);

/* The terminal has another size. */
void top_screen_resize(void);

/* The next key that has been pressed (enum top_key or a byte); -1: no more. */
int top_screen_key(void);

/* What is on the screen. */
struct top_picture {
	const struct top_table *table;
	struct top_view *view;
	const char *socket_path;
	double interval_s;
	const char *trouble; /* why there is no new sample; "": there is */
};

/* 0 or -ENOMEM. */
int top_screen_draw(const struct top_picture *picture);

#endif
