/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_TABLE_H
#define TOP_TABLE_H

/* The clients of the last sample, with what has changed since the sample before. Any thread. */

#include "top_history.h"
#include "top_sample.h"
#include "daemon/text/demangle.h"

struct top_row {
	struct top_client client;
	char user[64];              /* the name of the UID, or its number */
	char kernel[DEMANGLED_MAX]; /* launched last, demangled; "-": none */

	bool has_rates; /* the sample is not the first one */
	/* In a second: */
	double launches, copies, bytes_in, bytes_out;
	double busy;                /* 0 to 1 */
	double yielded;             /* of all its GPUs' SMs, left to others: 0 to 1 for each GPU */
	struct top_history history; /* of `busy' */
};

struct top_table {
	struct top_sample sample; /* owns the texts of the rows */
	uint64_t interval_ns;     /* since the sample before; 0: there was none */
	struct top_row *rows;     /* ordered by the clients' names */
	size_t n_rows;
};

/*
 * The next sample: rows of clients that have ended go, rows of others keep their history. Takes
 * the sample, on failure too. 0 or -ENOMEM, then nothing has changed.
 */
int top_table_update(struct top_table *table, struct top_sample *sample);

void top_table_fini(struct top_table *table);

/* Whether memory of a client is away from its GPU. */
bool top_table_has_away(const struct top_table *table);

#endif
