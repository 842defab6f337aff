/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTITION_CHOICE_H
#define PARTITION_CHOICE_H

/*
 * Which partitions of SMs a client gets, and which clients have a partition. Loop thread.
 *
 * On a GPU with partitions, a client has the partition that its namespace is bound to, else the one
 * that it names, else no SMs. A partition that a namespace is bound to is for the clients of such
 * namespaces only, unless it is shareable.
 */

#include <stdint.h>

struct conn;
struct daemon;
struct frame_device;
struct frame_limits;
struct partition;
struct server;

/* Sets the partitions of a client that comes to the server. */
void partition_choice_set(
	const struct server *server, const struct conn *conn, struct frame_limits *limits);

/*
 * How many clients have the partition. A server of an earlier daemon that has not reported its
 * clients yet counts as one.
 */
unsigned partition_count_clients(const struct daemon *daemon, const struct partition *partition);

/* The same without the clients of one namespace. */
unsigned partition_count_others(
	const struct daemon *daemon, const struct partition *partition, uint32_t group);

/* Chunks of the GPU that clients of the server have beyond their partitions, except for one. */
uint64_t partition_lent(const struct server *server, const struct frame_device *device,
	const struct partition *except);

#endif
