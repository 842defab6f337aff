/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENANT_LOG_H
#define TENANT_LOG_H

/*
 * Lines of the logs that a user causes: of a user that the daemon does not
 * trust only so many are written (allowances.h), and the number of the others
 * follows. Loop thread.
 */

#include "log_file.h"

struct daemon;
struct tenant;

/* A line of control.log. */
void tenant_log(struct tenant *tenant, const struct log_subject *about, const char *format, ...)
	_printf_(3, 4);

/* A line that the tenant's server has written; of every user there is a limit. */
void tenant_log_server(
	struct tenant *tenant, bool is_up, const struct log_subject *about, const char *line);

/* A connection that no tenant has. */
void log_without_tenant(struct daemon *daemon, const char *format, ...) _printf_(2, 3);

/* Before a tenant is forgotten. */
void tenant_report_dropped(struct tenant *tenant);

#endif
