/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The output of printf in kernels: captured, assigned to a client, kept until the client
 * takes it. printf_capture_init() by the loop, the rest by workers.
 *
 * Invariant: a session gets text only if it was captured while no other session could have
 * printed. Otherwise the text goes to the log. What a session with a turn has printed is captured
 * before another session gets text, because text is captured at the end of each turn.
 */

#include "printf_capture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disable.h"
#include "lock.h"
#include "stream.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/gate.h"
#include "server/share/session_devices.h"
#include "do_stream.h"

/* The most text that is kept for a client that does not take it. */
#define TEXT_MAX (16u << 20)

static struct lock lock = LOCK_INIT(PRINTF);
static struct printf_capture *printers; /* the sessions with a turn */
static int n_waiting;                   /* sessions that wait for a turn alone */
static int caught = -EBADF;             /* replaces standard output */
static off_t n_read;                    /* offset in it */
static bool shares;                     /* unless MPS_DISABLE=turns: set once */

int printf_capture_init(void)
{
	_cleanup_close_ int fd = memfd_create("mps-text", MFD_CLOEXEC);

	shares = !disable_has(DISABLE_TURNS);
	/* Every write appends, wherever the server reads. */
	if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		return -errno;
	caught = TAKE_FD(fd);
	return 0;
}

/* ---- under the lock */

static void unlink_printer(struct printf_capture *text)
{
	struct printf_capture **link = &printers;

	if (!text->is_printer)
		return;
	while (*link && *link != text)
		link = &(*link)->next;
	*link = text->next;
	text->is_printer = false;
}

/* How much text is new since the last time. */
static size_t n_caught(void)
{
	struct stat file;

	return fstat(caught, &file) == 0 && file.st_size > n_read ? (size_t)(file.st_size - n_read)
								  : 0;
}

/*
 * Logs text that may be of several clients, one line at a time, marked as such: clients
 * print what they like.
 */
static void log_text(char *bytes, size_t n)
{
	char *rest = bytes, *line;

	bytes[n] = '\0';
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_line("Printed by a kernel of one of several clients: %s", line);
}

/* Moves new text to `text', as far as it has space. NULL: to the log. */
static void printf_capture_collect(struct printf_capture *text)
{
	char piece[4096 + 1];
	off_t before = n_read;
	ssize_t n;

	while ((n = pread(caught, piece, sizeof(piece) - 1, n_read)) > 0) {
		n_read += n;
		if (!text) {
			log_text(piece, (size_t)n);
		} else if ((size_t)n <= text->size - text->n_bytes) {
			memcpy(text->bytes + text->n_bytes, piece, (size_t)n);
			text->n_bytes += (size_t)n;
		}
	}
	/* Frees the memory of what was read; the offsets continue. */
	if (n_read > before)
		fallocate(caught, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, n_read);
}

/* ---- a session's turn */

static bool is_alone(const struct printf_capture *text)
{
	return printers == text && !text->next;
}

/* Makes space for `more' bytes. If that fails, the client loses text. */
static void printf_capture_make_space(struct session *session, size_t more)
{
	struct printf_capture *text = session->text;
	size_t size = MAX(2 * text->size, text->n_bytes + more);
	char *bytes;

	if (text->n_bytes + more <= text->size || text->n_bytes + more > TEXT_MAX)
		return;
	bytes = account_grow(session->account, text->bytes, size, 1);
	if (!bytes)
		return;
	text->bytes = bytes;
	text->size = size;
}

/* The allocation may wait, so it is not under the lock. */
static void make_space_for_caught(struct session *session)
{
	size_t more;

	lock_take(&lock);
	more = is_alone(session->text) ? n_caught() : 0;
	lock_release(&lock);
	if (more > 0)
		printf_capture_make_space(session, more);
}

/* The driver writes its buffer when a stream is synchronised, even one without work. */
static void make_driver_write(struct session *session)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct session_device *sdev = session->devices[i];

		if (!sdev || session_device_enter(session, sdev) != CUDA_SUCCESS)
			continue;
		if (!sdev->text &&
			session_device_take_stream(session, sdev, session_device_priority(sdev, 0),
				&sdev->text) != CUDA_SUCCESS)
			sdev->text = NULL;
		if (sdev->text)
			cuda.cuStreamSynchronize(sdev->text);
	}
}

/* Under the lock. Text of several sessions ends the silence of all of them. */
static void collect_from(struct printf_capture *text)
{
	off_t before = n_read;

	printf_capture_collect(is_alone(text) ? text : NULL);
	for (struct printf_capture *one = printers; one && n_read > before; one = one->next)
		one->text_turn = one->turn;
}

void printf_capture_flush(struct session *session)
{
	struct printf_capture *text = session->text;
	size_t before = text->n_bytes;
	bool is_over;

	if (!text->is_printer)
		return;
	is_over = streams_poll(session);
	make_driver_write(session);
	make_space_for_caught(session);
	lock_take(&lock);
	collect_from(text);
	if (is_over)
		unlink_printer(text);
	lock_release(&lock);
	shm_add32(&session->page->n_text, (uint32_t)(text->n_bytes - before));
}

/* Under the lock. Whether the session may have a turn now, alone or shared. */
static bool may_begin(const struct printf_capture *text, bool is_alone)
{
	for (const struct printf_capture *other = printers; other; other = other->next)
		if (other != text && (is_alone || other->is_alone))
			return false;
	return is_alone || n_waiting == 0;
}

static bool try_begin(struct printf_capture *text, bool is_alone, bool is_late)
{
	bool may;

	lock_take(&lock);
	may = is_late || may_begin(text, is_alone);
	if (may && !text->is_printer) {
		/* Left over from a session that has ended. */
		if (!printers)
			printf_capture_collect(NULL);
		LIST_PUSH(printers, text);
		text->is_printer = true;
		text->is_alone = false;
		text->turn++;
	}
	if (may)
		text->is_alone = text->is_alone || is_alone;
	lock_release(&lock);
	return may;
}

/* Sessions with a shared turn do not begin another while one waits for a turn alone. */
static void note_waiting(int change)
{
	lock_take(&lock);
	n_waiting += change;
	lock_release(&lock);
}

/* Whether nothing was printed in the turn of `history'. */
static bool was_silent(const struct printf_capture *text, const struct print_history *history)
{
	bool was_silent;

	lock_take(&lock);
	was_silent = history->turn > 0 && text->text_turn < history->turn;
	lock_release(&lock);
	return was_silent;
}

static bool needs_alone(const struct print_history *history)
{
	return !shares || history->n_silent < SILENT_TURNS;
}

bool printf_capture_begin(struct session *session, struct print_history *history)
{
	struct printf_capture *text = session->text;

	if (caught < 0)
		return true;
	if (history->turn != text->turn || !text->is_printer) {
		if (!was_silent(text, history))
			history->n_silent = 0;
		else if (needs_alone(history))
			history->n_silent++;
	}
	if ((!text->is_printer || (needs_alone(history) && !text->is_alone)) &&
		!try_begin(text, needs_alone(history), false))
		return false;
	history->turn = text->turn;
	return true;
}

void printf_capture_wait(struct session *session, struct print_history *history)
{
	struct gate_wait wait = gate_wait(GATE_PRINT, session);
	struct printf_capture *text = session->text;
	bool is_alone = needs_alone(history), is_late = false;

	note_waiting(is_alone);
	while (!try_begin(text, is_alone, is_late)) {
		is_late = !gate_again(&wait);
		/* A shared turn of this session may be what another one waits for. */
		printf_capture_flush(session);
	}
	note_waiting(-(int)is_alone);
	history->turn = text->turn;
}

/* Its work has ended. Text that was not taken is dropped. */
static void printf_capture_fini(struct session *session, bool device_lost)
{
	struct printf_capture *text = session->text;

	/* Otherwise the next printer would get what the driver still keeps. */
	if (text->is_printer && !device_lost)
		make_driver_write(session);
	lock_take(&lock);
	/* If no other session prints, the text is its own, and is dropped with it. */
	if (text->is_printer)
		printf_capture_collect(is_alone(text) ? text : NULL);
	unlink_printer(text);
	lock_release(&lock);
	account_free(text->bytes);
	text->bytes = NULL;
	text->n_bytes = text->size = 0;
}

CUresult do_printf_take(struct session *session, uint32_t flush, uint32_t *ret_is_more,
	uint32_t *ret_is_pending, uint8_t *bytes, uint32_t n_max, uint32_t *ret_n)
{
	struct printf_capture *text = session->text;
	uint32_t n;

	if (flush)
		printf_capture_flush(session);
	n = (uint32_t)MIN(text->n_bytes, (size_t)n_max);
	if (n > 0) {
		memcpy(bytes, text->bytes, n);
		memmove(text->bytes, text->bytes + n, text->n_bytes - n);
		text->n_bytes -= n;
	}
	*ret_is_more = text->n_bytes > 0;
	*ret_is_pending = text->is_printer;
	*ret_n = n;
	return CUDA_SUCCESS;
}

static void printf_capture_new(struct session *session, void *part)
{
	session->text = part;
	session->text->session = session;
}

/* Under the lock. The page keeps the beginning of the text. */
static void give_last_text(const struct session *session)
{
	uint8_t bytes[LAST_TEXT_MAX];
	ssize_t n = pread(caught, bytes, sizeof(bytes), n_read);

	if (n <= 0)
		return;
	n_read += n;
	shm_copy_in(session->page->last_text, bytes, (size_t)n);
	shm_store32(&session->page->n_last_text, (uint32_t)n);
}

/*
 * After a fault the driver writes its buffer at a synchronisation, as before. That does not
 * wait, because the context has no work any more: a query says so.
 */
static void printf_capture_fault(_unused_ struct session *session)
{
	bool is_wanted;

	lock_take(&lock);
	is_wanted = caught >= 0 && printers;
	lock_release(&lock);
	if (!is_wanted || !result_is_fault(cuda.cuStreamQuery(CU_STREAM_LEGACY)))
		return;
	(void)cuda.cuCtxSynchronize();
	lock_take(&lock);
	if (printers && is_alone(printers))
		give_last_text(printers->session);
	else
		printf_capture_collect(NULL);
	lock_release(&lock);
}

static void printf_capture_trim(struct session *session, _unused_ bool all)
{
	printf_capture_flush(session);
}

static const char *printf_capture_obstacle(struct session *session)
{
	return session->text->n_bytes > 0 || session->text->is_printer
		       ? "output of its kernels has not been taken"
		       : NULL;
}

const struct session_part printf_capture_part = {
	.obstacle = printf_capture_obstacle,
	.size = sizeof(struct printf_capture),
	.begin = printf_capture_new,
	.trim = printf_capture_trim,
	.fault = printf_capture_fault,
	.end = printf_capture_fini,
};
