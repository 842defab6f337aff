/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENANT_LOG_H
#define TENANT_LOG_H

/*
 * Lines of the logs that a user causes. Lines of an untrusted account are limited
 * (allowances.h); the number of dropped lines is logged afterwards. Loop
 * thread.
 */

#include "daemon/log/log_file.h"

struct account;
struct daemon;
struct tenant;

/* Logs a line to control.log. */
void tenant_log(struct tenant *tenant, const struct log_subject *about, const char *format, ...)
	_printf_(3, 4);

/* Logs a line that a server of the tenant has written; the limit applies to every user. */
void tenant_log_server(
	struct tenant *tenant, bool is_up, const struct log_subject *about, const char *line);

/* Logs a line about a connection that has no tenant. */
void log_without_tenant(struct daemon *daemon, const char *format, ...) _printf_(2, 3);

/* Reports the dropped lines before the last tenant of the account is freed. */
void account_report_dropped(struct daemon *daemon, struct account *account);

#endif
