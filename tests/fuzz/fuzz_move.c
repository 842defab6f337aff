/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the pack of a session as another server sends it: the record, from which a session over
 * the counting driver makes its objects, and the state of its memory. The session has to end as any
 * other. The first byte says what follows:
 *
 * - 0: the whole. Two bytes are the length of the record. The head of its file is right, as far as
 *   a fuzzer would need long to find it. With it come an image, the memory of two chunks, one of
 *   which has two parts, and the file of a region of host memory.
 * - Otherwise: edits of the pack of a session with objects of each kind (move_model.h).
 */

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "move_model.h"
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

static int make_file(const uint8_t *data, size_t size, uint32_t n_images)
{
	const struct record_file_head head = {RECORD_FILE_MAGIC, n_images, SPEC_HASH,
		sizeof(head) + size, count_entries(data, size), 0};
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
	pack_put_fd(pack, make_file(data, n, 1));
	pack_put_fd(pack, make_image());
	for (unsigned i = 0; i < ARRAY_SIZE(memories); i++)
		pack_put_fd(pack, make_memory(memories[i]));
}

/* ---- edits of a pack that is right */

/* What an edit does at `at', a place in the record's file or in the bytes of the pack. */
enum how {
	SET_BYTE,
	FLIP_BIT,
	SET_WORD,
	SET_NUMBER,
	ADD,
	COPY, /* 64 bytes from another place */
	CUT,  /* the rest */
	HOWS,
};

struct edit {
	uint8_t how; /* % HOWS; the highest bit: in the pack's bytes */
	uint8_t more;
	uint16_t at;
	uint64_t value;
};

static void edit_bytes(uint8_t *bytes, size_t *size, const struct edit *edit)
{
	const size_t at = *size > 0 ? ((size_t)edit->at | (size_t)edit->more << 16) % *size : 0;
	const size_t left = *size - at, from = *size > 0 ? edit->value % *size : 0;
	uint32_t word = 0;

	switch ((edit->how & 0x7f) % HOWS) {
	case SET_BYTE:
		memcpy(bytes + at, &edit->value, MIN(left, (size_t)1));
		break;
	case FLIP_BIT:
		word = bytes[at] ^ 1u << edit->value % 8;
		memcpy(bytes + at, &word, MIN(left, (size_t)1));
		break;
	case SET_WORD:
		memcpy(bytes + at, &edit->value, MIN(left, sizeof(word)));
		break;
	case SET_NUMBER:
		memcpy(bytes + at, &edit->value, MIN(left, sizeof(edit->value)));
		break;
	case ADD:
		memcpy(&word, bytes + at, MIN(left, sizeof(word)));
		word += (uint32_t)edit->value;
		memcpy(bytes + at, &word, MIN(left, sizeof(word)));
		break;
	case COPY:
		memmove(bytes + at, bytes + from, MIN(MIN(left, *size - from), (size_t)64));
		break;
	default:
		*size = at;
	}
}

/* The edited record, with a head that is right. */
static void edit_model(struct pack *pack, const uint8_t *data, size_t size)
{
	struct edit edit;
	size_t record_size;
	uint8_t *record = move_model_take(pack, &record_size);

	for (; size >= sizeof(edit); data += sizeof(edit), size -= sizeof(edit)) {
		memcpy(&edit, data, sizeof(edit));
		if (edit.how & 0x80)
			edit_bytes(pack->bytes, &pack->size, &edit);
		else
			edit_bytes(record, &record_size, &edit);
	}
	close(pack->fds[0]);
	pack->fds[0] = make_file(record, record_size, move_model_n_images());
	free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pack pack = {0};
	int r, checked;

	if (size == 0)
		return 0;
	if (data[0] == 0)
		make_pack(&pack, data + 1, size - 1);
	else
		edit_model(&pack, data + 1, size - 1);
	harness_open(false);
	r = replay_unpack(harness.session, &pack);
	/* Without the state of the memory, a record is worth a try, too. */
	checked = r == 0 ? session_check(harness.session, &pack) : r;
	if (r == 0 && pack.at < pack.size) {
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
