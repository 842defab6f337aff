/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NAMESPACE_H
#define NAMESPACE_H

/*
 * A namespace of protocol 3: a group whose clients are those that connect in its directory,
 * DIRECTORY/SERVER/NAME. The name of the group is SERVER/NAME. Loop thread.
 */

#include "frame.h"
#include "server_name.h"
#include "daemon/text/list.h"

struct endpoint;
struct group;
struct slot;

#define NAMESPACE_DEFAULT "default"

struct namespace
{
	struct list link;            /* in its slot's namespaces, the newest first */
	struct slot *slot;           /* whose server it belongs to */
	struct group *group;         /* owned */
	struct endpoint *endpoint;   /* owned */
	char cgroup[GROUP_NAME_MAX]; /* whose clients come to it; "": none */
	uint32_t cgroup_depth;       /* levels below that cgroup */
	bool is_deleted;             /* freed when the work of its clients has ended */
	struct list enders;          /* connections whose namespace delete waits for that */
	char name[SERVER_NAME_MAX];
};

#endif
