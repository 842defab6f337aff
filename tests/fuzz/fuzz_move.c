/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the pack of a session as another server sends it: the record, from which a session over
 * the counting driver makes its objects, and the state of its memory. The first two bytes are the
 * length of the record. The head of its file is right, as far as a fuzzer would need long to find
 * it. With it come an image, the memory of two chunks, one of which has two parts, and the file of
 * a region of host memory. The session has to end as any other.
 */

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "session_harness.h"
#include "spec_hash.h"
#include "server/util/pack.h"
#include "server/record/record_file.h"
#include "server/session/session_move.h"
#include "server/share/chunk.h"
#include "server/launch/launch_batch.h"
#include "server/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t count_entries(const uint8_t *data, size_t size)
{
	struct record_file_entry entry;
	uint32_t n = 0;

	for (; size >= sizeof(entry); n++) {
		memcpy(&entry, data, sizeof(entry));
		if (entry.size < sizeof(entry) || entry.size > size)
			return n + 1;
		data += entry.size;
		size -= entry.size;
	}
	return n;
}

static int make_file(const uint8_t *data, size_t size)
{
	const struct record_file_head head = {
		RECORD_FILE_MAGIC, 1, SPEC_HASH, sizeof(head) + size, count_entries(data, size), 0};
	int fd = memfd_create("record", MFD_CLOEXEC);

	assert(fd >= 0 && write(fd, &head, sizeof(head)) == sizeof(head));
	assert(write(fd, data, size) == (ssize_t)size);
	return fd;
}

static int make_image(void)
{
	static const char image[] = "fake image";
	int fd = memfd_create("image", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	assert(fd >= 0 && write(fd, image, sizeof(image)) == sizeof(image));
	assert(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	return fd;
}

static int make_memory(uint64_t size)
{
	int fd = memfd_create("memory", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	assert(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	assert(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	return fd;
}

static void make_pack(struct pack *pack, const uint8_t *data, size_t size)
{
	static const uint64_t memories[] = {2 << 20, ARENA_PART, 4 << 20, VA_WINDOW};
	uint16_t n = 0;

	memcpy(&n, data, MIN(size, sizeof(n)));
	data += MIN(size, sizeof(n));
	size -= MIN(size, sizeof(n));
	n = (uint16_t)MIN(n, size);
	pack_put_number(pack, 1);
	pack_put(pack, data + n, size - n);
	pack_put_fd(pack, make_file(data, n));
	pack_put_fd(pack, make_image());
	for (unsigned i = 0; i < ARRAY_SIZE(memories); i++)
		pack_put_fd(pack, make_memory(memories[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pack pack = {0};
	int r, checked;

	make_pack(&pack, data, size);
	harness_open(false);
	r = replay_unpack(harness.session, &pack);
	/* Without the state of the memory, a record is worth a try, too. */
	checked = r == 0 ? session_check(harness.session, &pack) : r;
	if (r == 0 && size > 0 && pack.at < pack.size) {
		r = session_unpack(harness.session, &pack);
		assert(checked == 0 || r < 0);
		harness.session->receiver.n_held = 0;
	}
	pack_fini(&pack);
	if (r == 0) {
		(void)replay_run(harness.session);
		launch_batch_flush(harness.session);
	}
	harness_close();
	return 0;
}
