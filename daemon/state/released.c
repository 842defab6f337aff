/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Released servers. Loop thread.
 *
 * Invariant: each has a poll handle, whose closing frees it.
 */

#include "released.h"

#include <fcntl.h>

#include "daemon.h"

static void on_closed(uv_handle_t *handle)
{
	struct released *released = handle->data;

	closep(&released->pidfd);
	free(released);
}

static void forget(struct released *released)
{
	list_remove(&released->link);
	uv_close((uv_handle_t *)&released->end, on_closed);
}

static void on_end(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	forget(poll->data);
}

void released_add(struct daemon *daemon, pid_t pid, uid_t uid, int pidfd)
{
	_cleanup_close_ int own = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	_cleanup_free_ struct released *released = own < 0 ? NULL : calloc(1, sizeof(*released));

	if (!released || uv_poll_init(&daemon->loop, &released->end, own) < 0)
		return;
	released->end.data = released;
	released->pid = pid;
	released->uid = uid;
	released->pidfd = TAKE_FD(own);
	uv_poll_start(&released->end, UV_READABLE, on_end);
	list_add_tail(&daemon->released, &released->link);
	TAKE_PTR(released);
}

void released_close(struct daemon *daemon)
{
	list_each_safe (struct released, released, &daemon->released, link)
		forget(released);
}
