/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METRICS_H
#define METRICS_H

/*
 * The metrics: what the daemon, its servers, clients, users, groups and GPUs have done, as a
 * page in Prometheus' format. Loop thread.
 */

#include "base.h"
#include "bounds.h"
#include "counters.h"
#include "daemon/text/exposition.h"
#include "daemon/config/devices.h"
#include "daemon/state/usage.h"

struct client;
struct conn;
struct daemon;
struct server;

/*
 * Clients that have series of their own: more would be a page that takes long to write and to
 * scrape. The others are in the sums only.
 */
#define METRICS_CLIENTS_MAX 256
/* Their GPUs, all together: six series each. */
#define METRICS_CONTEXTS_MAX 1024

/* A client, a user or a group. */
struct metrics_row {
	struct labels labels;
	uint64_t counters[COUNTERS];
	/* Not owned: */
	const struct server *server;
	const struct client *client; /* of a row of a client */
	const struct usage *usage;   /* of a row of a user */
	uint32_t id;                 /* of a row of a user or a group: the UID, or the group's */
};

struct metrics_gpu {
	char uuid[DEVICE_UUID_TEXT];
	const struct frame_device *device; /* not owned */
	unsigned n_clients;
	uint64_t memory; /* that its clients have */
	/* The least share of a background client, the worst slowdown of another one; 0: none. */
	uint32_t share_sms, slowdown;
};

struct metrics {
	const struct daemon *daemon;
	const struct conn *viewer; /* NULL: sees everything */
	bool sees_all;
	struct metrics_row clients[METRICS_CLIENTS_MAX], users[USAGES_MAX], groups[GROUPS_MAX];
	struct metrics_gpu gpus[DEVICES_MAX];
	unsigned n_clients, n_users, n_groups, n_gpus, n_contexts;
	unsigned n_present;  /* clients */
	unsigned n_left_out; /* of these, without series */
};

/* Collects what the viewer may see: with NULL, everything. The caller frees it; NULL: no memory. */
struct metrics *metrics_collect(const struct daemon *daemon, const struct conn *viewer);

/* Writes the page (metrics_write.c). */
void metrics_write(const struct metrics *metrics, FILE *out);

/* Both: the page with its NUL, which the caller frees. NULL without memory. */
char *metrics_page(const struct daemon *daemon, const struct conn *viewer, size_t *ret_size);

#endif
