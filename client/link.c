/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Meeting the server: the connection, whom it belongs to, the introduction and
 * the memories. By the thread that decides the route; link_is_alive() by any.
 *
 * Invariant: a mapped memory has the size this build expects and can't shrink.
 */

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "frame.h"
#include "bounds.h"
#include "link.h"
#include "log.h"
#include "spec_hash.h"
#include "wire.h"

#define CONNECT_RETRY_MS 20
#define OVERFLOW_UID_DEFAULT 65534
/* A frame that the server sent before its answer came. */
#define MEMORY_MS 2000

struct link server = {
	.sock = -EBADF,
	.reading = PTHREAD_MUTEX_INITIALIZER,
	.sending = PTHREAD_MUTEX_INITIALIZER,
};

struct attempt {
	char *why;
	size_t why_size;
	CUresult result;
	char path[SOCKET_PATH_MAX + 1];
};

_printf_(2, 3) static void attempt_say(struct attempt *attempt, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(attempt->why, attempt->why_size, format, args);
	va_end(args);
}

static int attempt_path(struct attempt *attempt)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	int n;

	if (!folder || !*folder)
		folder = PIPE_DIRECTORY_DEFAULT;
	n = snprintf(attempt->path, sizeof(attempt->path), "%s/control", folder);
	if (n >= 0 && (size_t)n < sizeof(attempt->path))
		return 0;
	attempt_say(attempt,
		"CUDA_MPS_PIPE_DIRECTORY=%s is too long: with /control it may have %d bytes",
		folder, SOCKET_PATH_MAX);
	return LINK_NOBODY;
}

/* A full backlog says EAGAIN: the daemon is there and busy. */
static int attempt_connect(struct attempt *attempt, int *ret_sock)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0)
		return -errno;
	memcpy(address.sun_path, attempt->path, strlen(attempt->path) + 1);
	for (int waited_ms = 0;; waited_ms += CONNECT_RETRY_MS) {
		int r = connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno
											: 0;

		if (r == 0)
			break;
		if (r == -ENOENT || r == -ENOTDIR || r == -ECONNREFUSED || r == -EPROTOTYPE) {
			attempt_say(attempt, "no control daemon at %s (%s)", attempt->path,
				strerror(-r));
			return LINK_NOBODY;
		}
		if (r != -EAGAIN && r != -EINTR)
			return r;
		if (waited_ms >= INTRODUCTION_MS)
			return -ETIMEDOUT;
		poll(NULL, 0, CONNECT_RETRY_MS);
	}
	*ret_sock = TAKE_FD(sock);
	return 0;
}

static bool read_line(const char *path, char *line, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);

	if (n < 0)
		return false;
	line[n] = '\0';
	return true;
}

static uint64_t number_next(const char **text)
{
	uint64_t value = 0;

	while (**text == ' ')
		(*text)++;
	for (; **text >= '0' && **text <= '9'; (*text)++)
		value = value * 10 + (uint64_t)(**text - '0');
	return value;
}

/* UIDs without a name in our user namespace all look like this one. */
static bool is_overflow_uid(uid_t uid)
{
	uint64_t overflow = OVERFLOW_UID_DEFAULT;
	char line[256];
	const char *at = line;
	bool is_whole;

	if (!read_line("/proc/self/uid_map", line, sizeof(line)))
		return false;
	is_whole = number_next(&at) == 0 && number_next(&at) == 0 && number_next(&at) == UINT32_MAX;
	if (is_whole)
		return false;
	if (read_line("/proc/sys/kernel/overflowuid", line, sizeof(line))) {
		at = line;
		overflow = number_next(&at);
	}
	return uid == overflow;
}

static int attempt_check_peer(struct attempt *attempt, int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	if (peer.uid == 0 || peer.uid == geteuid() || is_overflow_uid(peer.uid))
		return 0;
	attempt_say(attempt,
		"%s belongs to UID %u, neither root nor UID %u: set CUDA_MPS_PIPE_DIRECTORY to a "
		"daemon of yours",
		attempt->path, (unsigned)peer.uid, (unsigned)geteuid());
	return -EPERM;
}

static int hello_variable(
	struct attempt *attempt, struct frame_variable *variable, const char *name)
{
	const char *value = getenv(name);

	if (!value)
		return 0;
	if (strlen(value) >= sizeof(variable->value)) {
		attempt_say(attempt, "%s has %zu bytes: %zu are allowed", name, strlen(value),
			sizeof(variable->value) - 1);
		attempt->result = CUDA_ERROR_INVALID_VALUE;
		return -EINVAL;
	}
	variable->is_set = 1;
	memcpy(variable->value, value, strlen(value));
	return 0;
}

static int attempt_hello(struct attempt *attempt, int sock)
{
	struct frame_hello hello = {0};
	const struct {
		struct frame_variable *variable;
		const char *name;
	} variables[] = {
		{&hello.visible_devices, "CUDA_VISIBLE_DEVICES"},
		{&hello.device_order, "CUDA_DEVICE_ORDER"},
		{&hello.active_thread_percentage, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"},
		{&hello.pinned_device_mem_limit, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"},
		{&hello.client_priority, "CUDA_MPS_CLIENT_PRIORITY"},
	};

	frame_init(&hello, FRAME_HELLO, 0);
	hello.version = FRAME_VERSION;
	hello.spec_hash = SPEC_HASH;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		int r = hello_variable(attempt, variables[i].variable, variables[i].name);

		if (r < 0)
			return r;
	}
	return frame_send(sock, &hello, NULL, INTRODUCTION_MS);
}

static int attempt_refused(struct attempt *attempt, const struct frame_refused *refused)
{
	if (refused->result == 0 || !frame_text_ok(refused->text, sizeof(refused->text)))
		return -EBADMSG;
	attempt->result = (CUresult)refused->result;
	attempt_say(attempt, "%s: %s", attempt->path, refused->text);
	return -ECONNREFUSED;
}

static int link_map(struct link *link, struct frame_reader *reader)
{
	_cleanup_close_ int ring_fd = frame_take_fd(reader, 0);
	_cleanup_close_ int staging_fd = frame_take_fd(reader, 1);
	_cleanup_close_ int page_fd = frame_take_fd(reader, 2);
	void *ring = NULL, *staging = NULL, *page = NULL;
	int r;

	/* Maps stay after a failure: the process will not try again. */
	r = shm_map(ring_fd, RING_BYTES, SHM_THEIRS, &ring);
	if (r == 0)
		r = shm_map(staging_fd, STAGING_SIZE, SHM_THEIRS, &staging);
	if (r == 0)
		r = shm_map(page_fd, PAGE_BYTES, SHM_OURS, &page);
	if (r < 0 || !page)
		return r;
	if (((struct page *)page)->page_bytes != sizeof(struct page) ||
		((struct page *)page)->n_devices > DEVICES_MAX)
		return -EBADMSG;
	link->control = (struct ring_control __shm *)(uintptr_t)ring;
	link->page = (const struct page __shm *)(uintptr_t)page;
	link->staging = staging;
	ring_sender_init(&link->sender, ring, page);
	return 0;
}

static int attempt_welcome(struct attempt *attempt, struct link *link, struct frame_reader *reader)
{
	const struct frame_welcome *welcome = (const void *)reader->bytes;

	if (reader->head.type == FRAME_REFUSED)
		return attempt_refused(attempt, (const void *)reader->bytes);
	if (reader->head.type != FRAME_WELCOME)
		return -EBADMSG;
	if (welcome->version != FRAME_VERSION || welcome->spec_hash != SPEC_HASH) {
		attempt_say(attempt,
			"%s: the server is of another build: restart the daemon or use the library "
			"of the same build",
			attempt->path);
		return -EPROTO;
	}
	log_info("served by PID %llu as session %u", (unsigned long long)welcome->server_pid,
		welcome->session);
	return link_map(link, reader);
}

static int attempt_all(struct attempt *attempt, struct link *link)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	_cleanup_close_ int sock = -EBADF;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	r = attempt_path(attempt);
	if (r == 0)
		r = attempt_connect(attempt, &sock);
	if (r == 0)
		r = attempt_check_peer(attempt, sock);
	if (r == 0)
		r = attempt_hello(attempt, sock);
	if (r == 0)
		r = frame_read_wait(&reader, sock, WELCOME_MS);
	if (r == 0)
		r = attempt_welcome(attempt, link, &reader);
	if (r == 0)
		link->sock = TAKE_FD(sock);
	return r;
}

int link_open(struct link *link, char *why, size_t why_size, CUresult *ret_result)
{
	struct attempt attempt = {
		.why = why,
		.why_size = why_size,
		.result = CUDA_ERROR_MPS_CONNECTION_FAILED,
	};
	int r;

	why[0] = '\0';
	r = attempt_all(&attempt, link);
	if (r < 0 && !why[0])
		attempt_say(&attempt, "%s: %s", attempt.path,
			r == -ECONNRESET
				? "the daemon closed the connection; its control.log says why"
			: r == -ETIMEDOUT ? "no answer in time; control.log and server.log say more"
			: r == -EBADMSG   ? "what answers there is no MPS server of this build"
					  : strerror(-r));
	*ret_result = attempt.result;
	return r;
}

void link_forget(struct link *link)
{
	closep(&link->sock);
	*link = (struct link){
		.sock = -EBADF,
		.reading = PTHREAD_MUTEX_INITIALIZER,
		.sending = PTHREAD_MUTEX_INITIALIZER,
	};
}

CUresult link_fault(uint32_t fault)
{
	static uint32_t is_told;

	if (!__atomic_exchange_n(&is_told, 1, __ATOMIC_RELAXED))
		log_error("a kernel of this program, or of another client of its server, failed "
			  "with %s: every call fails from now on; %s",
			cuda_result_name(fault),
			fault == CUDA_ERROR_ASSERT ? "server.log has what the assertion says"
						   : "server.log names who had work on the GPU");
	return (CUresult)fault;
}

bool link_is_alive(void *user)
{
	struct link *link = user;
	struct pollfd pfd = {.fd = link->sock, .events = POLLRDHUP};

	if (link_check(link) != CUDA_SUCCESS)
		return false;
	/* Bytes may be a frame that another thread is about to read. */
	if (poll(&pfd, 1, 0) <= 0)
		return true;
	if (!__atomic_exchange_n(&link->is_dead, 1, __ATOMIC_ACQ_REL))
		log_error("the server has gone: every call fails from now on");
	return false;
}

int link_read_memory(struct link *link, uint64_t address, uint64_t size, int *ret_fd)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_memory *frame = (const void *)reader.bytes;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	r = frame_read_wait(&reader, link->sock, MEMORY_MS);
	if (r == 0 && (frame->head.type != FRAME_MEMORY || frame->address != address ||
			      frame->size != size))
		r = -EBADMSG;
	if (r == 0)
		*ret_fd = frame_take_fd(&reader, 0);
	else
		__atomic_store_n(&link->is_dead, 1, __ATOMIC_RELEASE);
	return r;
}

/* Until it is told so, the server launches nothing that may need what has failed. */
static void tell_taken(struct link *link)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	shm_store32(&link->control->errors_taken,
		__atomic_load_n(&link->late_errors, __ATOMIC_RELAXED));
	pthread_mutex_unlock(&lock);
}

CUresult link_late_error(struct link *link)
{
	uint64_t word = shm_load64(&link->page->error);
	uint32_t count = (uint32_t)(word >> 32);

	if (likely(count == __atomic_load_n(&link->late_errors, __ATOMIC_RELAXED)))
		return CUDA_SUCCESS;
	if (__atomic_exchange_n(&link->late_errors, count, __ATOMIC_RELAXED) == count)
		return CUDA_SUCCESS;
	tell_taken(link);
	return (CUresult)(uint32_t)word;
}
