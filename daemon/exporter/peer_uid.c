/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the kernel for the socket whose own address is the peer's (NETLINK_SOCK_DIAG). Any
 * thread. A socket that its process has closed has no inode, and the kernel names root as its user.
 *
 * Invariant: nothing waits: the kernel replies within the send call.
 */

#include "peer_uid.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base.h"

struct request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void set_end(const union address *address, __be16 *port, __be32 words[4])
{
	if (address->any.sa_family == AF_INET) {
		*port = address->v4.sin_port;
		memcpy(words, &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	} else {
		*port = address->v6.sin6_port;
		memcpy(words, &address->v6.sin6_addr, sizeof(address->v6.sin6_addr));
	}
}

/* The peer's socket is bound to `remote', and connected to `local'. */
static struct request make_request(const union address *remote, const union address *local)
{
	struct request request = {0};
	struct inet_diag_sockid *id = &request.body.id;

	request.head.nlmsg_len = sizeof(request);
	request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	request.head.nlmsg_flags = NLM_F_REQUEST;
	request.body.sdiag_family = (uint8_t)remote->any.sa_family;
	request.body.sdiag_protocol = IPPROTO_TCP;
	request.body.idiag_states = UINT32_MAX;
	set_end(remote, &id->idiag_sport, id->idiag_src);
	set_end(local, &id->idiag_dport, id->idiag_dst);
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return request;
}

static int ask(const struct request *request, uid_t *ret_uid)
{
	_cleanup_close_ int netlink =
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	struct {
		struct nlmsghdr head;
		struct inet_diag_msg body;
		uint8_t attributes[512];
	} reply;
	ssize_t n;

	if (netlink < 0 || send(netlink, request, sizeof(*request), 0) < 0)
		return -errno;
	n = recv(netlink, &reply, sizeof(reply), 0);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(reply.head) + sizeof(reply.body) ||
		reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || reply.body.idiag_inode == 0)
		return -ENOENT;
	*ret_uid = reply.body.idiag_uid;
	return 0;
}

int peer_uid(int sock, uid_t *ret_uid)
{
	union address remote = {0}, local = {0};
	socklen_t remote_size = sizeof(remote), local_size = sizeof(local);
	struct request request;

	if (getpeername(sock, &remote.any, &remote_size) < 0 ||
		getsockname(sock, &local.any, &local_size) < 0)
		return -errno;
	if (remote.any.sa_family != local.any.sa_family ||
		(remote.any.sa_family != AF_INET && remote.any.sa_family != AF_INET6))
		return -ENOENT;
	request = make_request(&remote, &local);
	return ask(&request, ret_uid);
}
