/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METRICS_ADDRESS_H
#define METRICS_ADDRESS_H

/*
 * The address of the metrics: [ADDRESS:]PORT, where ADDRESS is one of IPv4, or one of IPv6 in
 * brackets. Any thread.
 */

#include <netinet/in.h>
#include <sys/socket.h>

#include "base.h"

#define METRICS_LISTEN_MAX 64
#define METRICS_HOST_DEFAULT "127.0.0.1"

struct metrics_address {
	socklen_t size;
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
	};
};

/* Without an address it is the loopback address. False: the text is no address. */
bool metrics_address_parse(const char *text, struct metrics_address *ret);

/* A socket that listens there, or -errno. */
int metrics_address_listen(const struct metrics_address *address);

#endif
