/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the daemon. Main thread.
 *
 * Invariant: the daemon gets only the part of HELLO that every version has, then the
 * connection's end. It compares the versions and starts no server. Then it is asked
 * for its GPUs as an operator asks: without any, no server can start.
 */

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "checks.h"
#include "clock.h"
#include "elf_file.h"
#include "find_cuda.h"
#include "frame.h"
#include "quote.h"
#include "trust.h"

#define HELLO_PREFIX (offsetof(struct frame_hello, spec_hash) + sizeof(uint64_t))

struct path {
	char text[SOCKET_PATH_MAX + 1];
};

static bool find_path(struct path *path, struct findings *findings)
{
	const char *folder = secure_getenv("CUDA_MPS_PIPE_DIRECTORY");
	int n;

	if (!folder || !*folder)
		folder = PIPE_DIRECTORY_DEFAULT;
	n = snprintf(path->text, sizeof(path->text), "%s/control", folder);
	if (n >= 0 && (size_t)n < sizeof(path->text))
		return true;
	findings_add(findings,
		"CUDA_MPS_PIPE_DIRECTORY has %zu bytes, so no socket can be there: use a path of "
		"at most %zu bytes",
		strlen(folder), SOCKET_PATH_MAX - strlen("/control"));
	return false;
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0)
		return -errno;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(sock);
}

/* Where a daemon does listen, if the variable names another directory. */
static const char *other_place(const struct path *path)
{
	static const char place[] = PIPE_DIRECTORY_DEFAULT "/control";
	_cleanup_close_ int sock = strcmp(path->text, place) == 0 ? -EBADF : connect_to(place);

	return sock >= 0 ? " (one listens in " PIPE_DIRECTORY_DEFAULT ")" : "";
}

static void report_unreachable(const struct path *path, int r, struct findings *findings)
{
	struct quoted quoted;

	quote(&quoted, path->text);
	switch (r) {
	case -ENOENT:
	case -ENOTDIR:
		findings_add(findings,
			"no daemon listens at %s%s: start one (mps-control -d), or set "
			"CUDA_MPS_PIPE_DIRECTORY to the directory of one",
			quoted.text, other_place(path));
		break;
	case -ECONNREFUSED:
		findings_add(findings,
			"the daemon at %s has ended%s: start it again (mps-control -d)",
			quoted.text, other_place(path));
		break;
	case -EPROTOTYPE:
		findings_add(findings,
			"%s is the socket of another service: set CUDA_MPS_PIPE_DIRECTORY to the "
			"directory of a daemon of this project",
			quoted.text);
		break;
	case -EACCES:
		findings_add(findings,
			"you may not connect to %s: let the owner of its directory give all users "
			"access (chmod a+rx), or choose another CUDA_MPS_PIPE_DIRECTORY",
			quoted.text);
		break;
	default:
		findings_add(findings, "cannot connect to %s (%s): see the daemon's control.log",
			quoted.text, strerror(-r));
	}
}

static int connect_daemon(const struct path *path, struct findings *findings)
{
	_cleanup_close_ int sock = -EBADF;
	char why[512];

	if (trust_path(path->text, why, sizeof(why)) < 0) {
		findings_add(findings, "%s", why);
		return -EPERM;
	}
	sock = connect_to(path->text);
	if (sock < 0) {
		report_unreachable(path, sock, findings);
		return sock;
	}
	if (trust_peer(sock, path->text, why, sizeof(why)) < 0) {
		findings_add(findings, "%s", why);
		return -EPERM;
	}
	return TAKE_FD(sock);
}

/* A daemon of another user, which MPS_TRUST_UID names. */
static void note_user(int sock, const struct path *path)
{
	struct quoted quoted;
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid == 0 ||
		peer.uid == geteuid())
		return;
	findings_note("the daemon at %s runs as UID %u: unless that is the host's root in a "
		      "container, it serves that user only",
		quote(&quoted, path->text), peer.uid);
}

/* The version and hash of the library, from its note. */
static bool read_version(const char *library, struct frame_hello *hello, struct findings *findings)
{
	_cleanup_(elf_file_close) struct elf_file file;
	const void *note = NULL;
	struct find_cuda_note version;
	struct quoted quoted;

	if (elf_file_open(&file, library) == 0)
		note = elf_file_note(
			&file, FIND_CUDA_NOTE_NAME, FIND_CUDA_NOTE_TYPE, sizeof(version));
	if (!note) {
		findings_add(findings,
			"%s is not the client library of this version: install the client library "
			"and mps-run from one build",
			quote(&quoted, library));
		return false;
	}
	memcpy(&version, note, sizeof(version));
	hello->version = version.version;
	hello->spec_hash = version.spec_hash;
	return true;
}

/* Waits for the end of the connection, or for a refusal. */
static int read_answer(int sock, struct frame_reader *reader)
{
	int r = frame_read_wait(reader, sock, INTRODUCTION_MS);

	/* The daemon has nothing to say about this version. */
	return r == -ECONNRESET ? 0 : r < 0 ? r : 1;
}

static void compare_versions(int sock, const struct path *path, const struct frame_hello *hello,
	struct findings *findings)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_refused *refused = (const void *)reader.bytes;
	struct quoted quoted;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	quote(&quoted, path->text);
	r = send(sock, hello, HELLO_PREFIX, MSG_NOSIGNAL) == HELLO_PREFIX ? 0 : -errno;
	if (r == 0 && shutdown(sock, SHUT_WR) < 0)
		r = -errno;
	if (r == 0)
		r = read_answer(sock, &reader);
	if (r == 1 && reader.head.type == FRAME_REFUSED &&
		frame_text_ok(refused->text, sizeof(refused->text)))
		findings_add(findings, "the daemon at %s refuses clients: %s", quoted.text,
			refused->text);
	else if (r != 0)
		findings_add(findings,
			"the process that listens at %s does not answer as a daemon does (%s): "
			"look at its control.log, or restart it",
			quoted.text, r < 0 ? strerror(-r) : "another answer");
}

/* Reads the answer to its end, or as much as fits. Length or -errno. */
static ssize_t ask(int sock, const char *command, char *answer, size_t size)
{
	const uint64_t end_ms = now_ms() + INTRODUCTION_MS;
	size_t used = 0;

	if (send(sock, command, strlen(command), MSG_NOSIGNAL) < 0 || shutdown(sock, SHUT_WR) < 0)
		return -errno;
	while (used < size - 1) {
		struct pollfd in = {.fd = sock, .events = POLLIN};
		const uint64_t now = now_ms();
		ssize_t n = -1;

		if (now >= end_ms || poll(&in, 1, (int)(end_ms - now)) == 0)
			return -ETIMEDOUT;
		n = recv(sock, answer + used, size - 1 - used, MSG_DONTWAIT);
		if (n == 0)
			break;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		used += (size_t)MAX(n, (ssize_t)0);
	}
	answer[used] = '\0';
	return (ssize_t)used;
}

/* A daemon that does not answer this may be busy: that is no reason. */
static void check_gpus(const struct path *path, struct findings *findings)
{
	static const char failure[] = "The GPUs are not known: ";
	_cleanup_close_ int sock = connect_daemon(path, findings);
	char answer[4096], *why;
	struct quoted quoted;

	if (sock < 0 || ask(sock, "device_query\n", answer, sizeof(answer)) < 0)
		return;
	why = strstr(answer, failure);
	if (!why)
		return;
	why += sizeof(failure) - 1;
	why[strcspn(why, "\n")] = '\0';
	findings_add(findings, "the daemon cannot start a server: %s", quote(&quoted, why));
}

void service_check(const char *library, struct findings *findings)
{
	struct frame_hello hello = {.head = frame_head(FRAME_HELLO, 0)};
	_cleanup_close_ int sock = -EBADF;
	struct path path;

	if (!find_path(&path, findings))
		return;
	sock = connect_daemon(&path, findings);
	if (!read_version(library, &hello, findings) || sock < 0)
		return;
	note_user(sock, &path);
	compare_versions(sock, &path, &hello, findings);
	if (findings->n == 0)
		check_gpus(&path, findings);
}
