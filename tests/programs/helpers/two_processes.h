/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWO_PROCESSES_H
#define TWO_PROCESSES_H

/*
 * Communication of programs with two processes, over a socket pair. Each program first
 * defines NAME, which begins the line that reports a failure of the other process.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

union descriptor_control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static inline void other_must(int has, const char *what)
{
	if (has)
		return;
	printf(NAME ": the other process %s\n", what);
	exit(1);
}

static inline void tell(int sock, const void *data, size_t size)
{
	other_must(send(sock, data, size, MSG_NOSIGNAL) == (ssize_t)size, "has gone");
}

static inline void hear(int sock, void *data, size_t size)
{
	other_must(recv(sock, data, size, MSG_WAITALL) == (ssize_t)size, "says nothing");
}

static inline void tell_word(int sock)
{
	tell(sock, "", 1);
}

static inline void hear_word(int sock)
{
	char word;

	hear(sock, &word, 1);
}

/* With one byte, because a message needs one. */
static inline struct msghdr descriptor_message(
	struct iovec *part, union descriptor_control *control)
{
	struct msghdr message;

	memset(&message, 0, sizeof(message));
	memset(control, 0, sizeof(*control));
	message.msg_iov = part;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(*control);
	return message;
}

static inline void tell_descriptor(int sock, int fd)
{
	char byte = 0;
	struct iovec part = {&byte, 1};
	union descriptor_control control;
	struct msghdr message = descriptor_message(&part, &control);

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	other_must(sendmsg(sock, &message, MSG_NOSIGNAL) == 1, "takes no descriptor");
}

/* The caller owns it. */
static inline int hear_descriptor(int sock)
{
	char byte;
	struct iovec part = {&byte, 1};
	union descriptor_control control;
	struct msghdr message = descriptor_message(&part, &control);
	int fd;

	other_must(recvmsg(sock, &message, 0) == 1 && control.head.cmsg_type == SCM_RIGHTS,
		"gives no descriptor");
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

/* Waits for the child's end: successful, or by the signal that the parent sent. */
static inline void wait_for_child(pid_t child, int is_killed)
{
	int status = 0;

	waitpid(child, &status, 0);
	other_must(is_killed ? WIFSIGNALED(status) : status == 0, "did not end as it should");
}

#endif
