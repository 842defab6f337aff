/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The address of the metrics. Any thread.
 *
 * Invariant: only an explicit address listens on anything but the loopback interface.
 */

#include "metrics_address.h"

#include <arpa/inet.h>
#include <string.h>

#include "daemon/text/tokenize.h"

/* Connections that the kernel accepts for the daemon, also of a flood until the daemon looks. */
#define BACKLOG 1024

/* The part before the colon, without brackets. */
static bool parse_host(const char *text, size_t length, struct metrics_address *address)
{
	bool is_ipv6 = length > 2 && text[0] == '[' && text[length - 1] == ']';
	char host[METRICS_LISTEN_MAX];

	if (is_ipv6) {
		text++;
		length -= 2;
	}
	if (length >= sizeof(host))
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	address->any.sa_family = is_ipv6 ? AF_INET6 : AF_INET;
	address->size = is_ipv6 ? sizeof(address->ipv6) : sizeof(address->ipv4);
	if (is_ipv6)
		return inet_pton(AF_INET6, host, &address->ipv6.sin6_addr) == 1;
	return inet_pton(AF_INET, host, &address->ipv4.sin_addr) == 1;
}

bool metrics_address_parse(const char *text, struct metrics_address *ret)
{
	const char *colon = strrchr(text, ':'), *host = colon ? text : METRICS_HOST_DEFAULT;
	size_t length = colon ? (size_t)(colon - text) : strlen(host);
	struct metrics_address address = {0};
	uint64_t port;

	if (parse_number(colon ? colon + 1 : text, UINT16_MAX, &port) < 0 || port == 0 ||
		!parse_host(host, length, &address))
		return false;
	if (address.any.sa_family == AF_INET6)
		address.ipv6.sin6_port = htons((uint16_t)port);
	else
		address.ipv4.sin_port = htons((uint16_t)port);
	*ret = address;
	return true;
}

int metrics_address_listen(const struct metrics_address *address)
{
	_cleanup_close_ int fd =
		socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* Connections of an earlier daemon do not keep the port. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &address->any, address->size) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}
