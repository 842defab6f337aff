/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_OPTIONS_H
#define TOP_OPTIONS_H

/* The options of top. Any thread. */

#include "daemon/text/error_message.h"

struct top_options {
	bool wants_help;
	bool is_once;         /* print instead of a live screen */
	bool is_json;         /* print as JSON */
	uint64_t interval_ms; /* -d */
	uint64_t n_samples;   /* -n; 0: without an end, or once if there is no terminal */
};

/* `arguments' begins with the name of the command and ends with NULL. 0 or -EINVAL. */
int top_options_read(struct top_options *ret, char *const *arguments, struct error_message *error);

#endif
