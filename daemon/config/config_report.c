/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines about a configuration file. Any thread.
 *
 * Invariant: a line is safe to print.
 */

#include "config_report.h"

#include <stdio.h>

#include "daemon/text/line_buffer.h"

void config_report(const struct config_report *report, const char *format, ...)
{
	char line[LINE_MAX_SIZE];

	format_arguments(line, format);
	line_clean(line);
	report->on_line(report->arg, line);
}
