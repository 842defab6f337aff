/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the devices as a file that all processes share.
 *
 * Runs in any thread, under the driver's lock. What is taken is what is locked: each
 * chunk is a range of the file, under a lock of the chunk's own open file description.
 * Descriptors that are passed on and mappings refer to that description, so the kernel
 * releases the lock with the last of them, however the processes end. Nothing else says
 * what is taken. Other memory of a process is as many bytes under a lock of the process,
 * beyond the end of the file.
 *
 * A process that looks for free bytes holds the lock of the byte CARD_GATE.
 */

#include "card.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Offsets. Those of chunks are small enough for every file system. */
#define CHUNK_SPACE (1ull << 39) /* for each device, from 0 on */
#define ACCOUNTS (1ull << 61)
#define ACCOUNT_SPACE (1ull << 56) /* for each device */
#define ACCOUNT_SIZE (1ull << 40)  /* for each process */
#define CARD_GATE (1ull << 62)

struct span {
	uint64_t start, end;
};

static struct {
	bool is_shared;
	int fd;         /* only asks, and locks CARD_GATE: a lock of its own would be invisible */
	int account_fd; /* has the locks of the accounts */
	dev_t dev;
	ino_t inode;
	struct {
		uint64_t start; /* 0: none yet */
		uint64_t used;
	} accounts[DEVICES_MAX]; /* by ordinal */
} card;

bool card_is_shared(void)
{
	return card.is_shared;
}

/*
 * A driver frees the memory of a process that has ended a while after its end. A helper process
 * keeps the account until then. It keeps nothing else of this process, and takes no signal to it.
 */
static void keep_account(unsigned late_ms)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct pollfd end = {.fd = 0, .events = POLLIN};

	if (pidfd < 0 || fork() != 0) {
		close(pidfd);
		return;
	}
	dup2(pidfd, 0);
	dup2(card.account_fd, 1);
	syscall(SYS_close_range, 2u, ~0u, 0u);
	while (poll(&end, 1, -1) < 0 && errno == EINTR)
		;
	usleep(late_ms * 1000);
	_exit(0);
}

CUresult card_open(void)
{
	const char *late_ms = getenv("SOFTGPU_CARD_LATE_MS");
	const char *path = getenv("SOFTGPU_CARD");
	struct stat st;

	if (!path || !*path)
		return CUDA_SUCCESS;
	card.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (card.fd >= 0)
		card.account_fd = open(path, O_RDWR | O_CLOEXEC);
	if (card.fd < 0 || card.account_fd < 0 || fstat(card.fd, &st) < 0) {
		fprintf(stderr, "softgpu: SOFTGPU_CARD: cannot open %s: %s\n", path,
			strerror(errno));
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	card.dev = st.st_dev;
	card.inode = st.st_ino;
	card.is_shared = true;
	if (late_ms)
		keep_account((unsigned)atoi(late_ms));
	return CUDA_SUCCESS;
}

/* `command' is one for locks of open file descriptions. */
static int lock_call(int fd, int command, short type, struct span span)
{
	struct flock lock = {.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)span.start,
		.l_len = (off_t)(span.end - span.start)};
	int r;

	do
		r = fcntl(fd, command, &lock);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static void gate_close(void)
{
	lock_call(card.fd, F_OFD_SETLKW, F_WRLCK, (struct span){CARD_GATE, CARD_GATE + 1});
}

static void gate_open(void)
{
	lock_call(card.fd, F_OFD_SETLK, F_UNLCK, (struct span){CARD_GATE, CARD_GATE + 1});
}

/* Any range that somebody has locked and that overlaps `span'. */
static bool find_taken(struct span span, struct span *ret_taken)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)span.start,
		.l_len = (off_t)(span.end - span.start)};

	if (span.start >= span.end || fcntl(card.fd, F_OFD_GETLK, &lock) < 0 ||
		lock.l_type == F_UNLCK)
		return false;
	ret_taken->start = (uint64_t)lock.l_start;
	ret_taken->end = (uint64_t)(lock.l_start + lock.l_len);
	return true;
}

/* The first of them. */
static bool find_first_taken(struct span span, struct span *ret_taken)
{
	bool is_found = false;

	while (find_taken(span, ret_taken)) {
		is_found = true;
		span.end = ret_taken->start;
	}
	return is_found;
}

static struct span chunks_of(int ordinal)
{
	uint64_t start = (uint64_t)ordinal * CHUNK_SPACE;

	return (struct span){start, start + CHUNK_SPACE};
}

static struct span accounts_of(int ordinal)
{
	uint64_t start = ACCOUNTS + (uint64_t)ordinal * ACCOUNT_SPACE;

	return (struct span){start, start + ACCOUNT_SPACE};
}

/* Without `unit' bytes of each range. */
static uint64_t taken_bytes(struct span span, uint64_t unit)
{
	struct span taken;
	uint64_t bytes = 0;

	while (find_first_taken(span, &taken)) {
		bytes += taken.end - taken.start - unit;
		span.start = taken.end;
	}
	return bytes;
}

size_t card_used(const struct device *device)
{
	return taken_bytes(chunks_of(device->ordinal), 0) +
	       taken_bytes(accounts_of(device->ordinal), 1);
}

/* The first byte of an account is taken as long as the process lives, and does not count. */
static bool account_open(int ordinal)
{
	struct span accounts = accounts_of(ordinal), taken;

	while (find_taken((struct span){accounts.start, accounts.start + ACCOUNT_SIZE}, &taken))
		accounts.start += ACCOUNT_SIZE;
	if (lock_call(card.account_fd, F_OFD_SETLK, F_WRLCK,
		    (struct span){accounts.start, accounts.start + 1}) < 0)
		return false;
	card.accounts[ordinal].start = accounts.start;
	return true;
}

static CUresult account_add(struct device *device, size_t size)
{
	const int ordinal = device->ordinal;
	struct span added;

	if (size > device->total - MIN(card_used(device), device->total))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (card.accounts[ordinal].start == 0 && !account_open(ordinal))
		return CUDA_ERROR_OUT_OF_MEMORY;
	added.start = card.accounts[ordinal].start + 1 + card.accounts[ordinal].used;
	added.end = added.start + size;
	if (lock_call(card.account_fd, F_OFD_SETLK, F_WRLCK, added) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	card.accounts[ordinal].used += size;
	return CUDA_SUCCESS;
}

CUresult card_charge(struct device *device, size_t size)
{
	CUresult result;

	if (size == 0)
		return CUDA_SUCCESS; /* a lock of no bytes would be one to the end of the file */
	gate_close();
	result = account_add(device, size);
	gate_open();
	return result;
}

void card_refund(struct device *device, size_t size)
{
	const int ordinal = device->ordinal;
	struct span freed;

	if (size == 0)
		return;
	freed.end = card.accounts[ordinal].start + 1 + card.accounts[ordinal].used;
	freed.start = freed.end - size;
	lock_call(card.account_fd, F_OFD_SETLK, F_UNLCK, freed);
	card.accounts[ordinal].used -= size;
}

/* The lowest free bytes, so that the file stays short. */
static uint64_t find_free(const struct device *device, size_t size)
{
	struct span chunks = chunks_of(device->ordinal), taken;

	while (find_first_taken((struct span){chunks.start, chunks.start + size}, &taken))
		chunks.start = taken.end;
	return chunks.start;
}

/* Makes the bytes zero, and no memory of the host. */
static int chunk_discard(int fd, uint64_t offset, uint64_t size)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		       (off_t)size) < 0
		       ? -errno
		       : 0;
}

/* The position of the descriptor tells an importing process which bytes these are. */
static int chunk_take(const struct card_chunk *chunk)
{
	const struct span span = {chunk->offset, chunk->offset + chunk->size};
	struct stat st;
	int r = lock_call(chunk->fd, F_OFD_SETLK, F_WRLCK, span);

	if (r < 0)
		return r;
	if (fstat(chunk->fd, &st) < 0 ||
		lseek(chunk->fd, (off_t)(span.start | chunk->tag), SEEK_SET) < 0)
		return -errno;
	if ((uint64_t)st.st_size < span.end && ftruncate(chunk->fd, (off_t)span.end) < 0)
		return -errno;
	return chunk_discard(chunk->fd, span.start, chunk->size);
}

/* A new open file description of the card. */
static int card_open_again(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", card.fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

CUresult card_chunk_new(
	const struct device *device, size_t size, uint32_t tag, struct card_chunk *ret_chunk)
{
	struct card_chunk chunk = {.fd = card_open_again(), .size = size, .tag = tag};
	bool has_space;

	if (chunk.fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gate_close();
	has_space = size <= device->total - MIN(card_used(device), device->total);
	if (has_space) {
		chunk.offset = find_free(device, size);
		has_space = chunk_take(&chunk) == 0;
	}
	gate_open();
	if (!has_space) {
		close(chunk.fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

bool card_chunk_find(int fd, struct card_chunk *ret_chunk, int *ret_ordinal)
{
	struct span taken;
	struct stat st;
	off_t at;

	if (!card.is_shared || fstat(fd, &st) < 0 || st.st_dev != card.dev ||
		st.st_ino != card.inode)
		return false;
	at = lseek(fd, 0, SEEK_CUR);
	if (at < 0 || (uint64_t)at >= CHUNK_SPACE * DEVICES_MAX ||
		!find_taken((struct span){(uint64_t)at, (uint64_t)at + 1}, &taken))
		return false;
	*ret_chunk = (struct card_chunk){.fd = fd,
		.offset = taken.start,
		.size = taken.end - taken.start,
		.tag = (uint32_t)((uint64_t)at - taken.start)};
	*ret_ordinal = (int)(taken.start / CHUNK_SPACE);
	return true;
}

void card_chunk_close(const struct card_chunk *chunk)
{
	struct span taken;

	gate_close();
	close(chunk->fd);
	if (!find_taken((struct span){chunk->offset, chunk->offset + chunk->size}, &taken))
		(void)chunk_discard(card.fd, chunk->offset, chunk->size);
	gate_open();
}
