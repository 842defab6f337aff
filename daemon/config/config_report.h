/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_REPORT_H
#define CONFIG_REPORT_H

/*
 * Where the lines about a configuration file go: standard error, the reply to
 * a command, control.log. Any thread.
 */

#include "base.h"

struct config_report {
	void (*on_line)(void *arg, const char *line);
	void *arg;
};

/* Reports a line, with control characters replaced. */
void config_report(const struct config_report *report, const char *format, ...) _printf_(2, 3);

#endif
