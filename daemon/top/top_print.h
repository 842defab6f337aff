/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_PRINT_H
#define TOP_PRINT_H

/* Prints the table to standard output, for pipes and files. Any thread. */

#include "top_table.h"
#include "top_view.h"

/* As text of so many columns. 0 or -ENOMEM. */
int top_print_text(struct top_view *view, const struct top_table *table, unsigned n_columns);

/* As one line of JSON; mps-top(1) describes its members. 0 or -ENOMEM. */
int top_print_json(struct top_view *view, const struct top_table *table);

#endif
