/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPOSITION_H
#define EXPOSITION_H

/*
 * Prometheus' text format, version 0.0.4. Any thread.
 *
 *   exposition_family(out, "mps_clients", "gauge", "Clients of all servers");
 *   exposition_number(out, "mps_clients", NULL, 7);
 *
 * All samples of a family follow its first line. The caller checks the stream at the end.
 */

#include <stdio.h>

#include "base.h"

/* What follows the 0.0.4 in the Content-Type is part of the format's name. */
#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Room for the labels of a sample. A group's name has 255 bytes at most. */
#define LABELS_MAX 768

struct labels {
	size_t size;
	char text[LABELS_MAX]; /* NAME="VALUE",NAME="VALUE" */
};

/*
 * Adds a label with any value: what is not UTF-8 becomes U+FFFD, and a value that does not fit
 * is cut.
 */
void labels_add(struct labels *labels, const char *name, const char *value);
void labels_add_number(struct labels *labels, const char *name, uint64_t value);

/* `type' is counter or gauge; the help has no backslash and no line break. */
void exposition_family(FILE *out, const char *name, const char *type, const char *help);

/* A sample; `labels' may be NULL. */
void exposition_number(FILE *out, const char *name, const struct labels *labels, uint64_t value);

/* The same, in seconds. */
void exposition_ns(FILE *out, const char *name, const struct labels *labels, uint64_t ns);

#endif
