/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_LIVE_H
#define TOP_LIVE_H

/* top on a terminal. main() only. */

#include "top_options.h"

/* Shows samples until the user or a signal ends it. Returns the exit status of the program. */
int top_live_run(const char *path, const struct top_options *options);

#endif
