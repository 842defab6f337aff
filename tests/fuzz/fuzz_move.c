/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the pack of a session as another server sends it: the record, from which a session over
 * the counting driver makes its objects, and the state of its memory. The session has to end as any
 * other. The first byte says what follows:
 *
 * - 0: the whole. Two bytes are the length of the record. The head of its file is right, as far as
 *   a fuzzer would need long to find it. With it come an image, the memory of two chunks, one of
 *   which has two parts, and the file of a region of host memory.
 * - Otherwise: edits of the pack of a session with objects and memory of each kind (move_model.h).
 *   An even number: of one whose memory has left the GPU.
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
#include "server/memory/away.h"
#include "server/launch/launch_batch.h"
#include "server/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Of libFuzzer, which the test of the corpus lacks. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

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

/* What it does to a descriptor, or else to a number of the pack, of which most is made. */
enum how_structured {
	NUMBER_SET,
	NUMBER_ADD,
	NUMBER_COPY,  /* another number */
	NUMBER_SHIFT, /* 1 << value */
	FD_SWAP,
	FD_RESIZE, /* a file of `value' bytes */
	FD_OTHER,  /* of another kind */
	FD_CUT,    /* this one and the rest */
	STRUCTURED_HOWS,
};

#define EDITS_PACK 0x80 /* not the record */
#define STRUCTURED 0x40

struct edit {
	uint8_t how;
	uint8_t more;
	uint16_t at;
	uint64_t value;
};

static void edit_bytes(uint8_t *bytes, size_t *size, const struct edit *edit)
{
	const size_t at = *size > 0 ? ((size_t)edit->at | (size_t)edit->more << 16) % *size : 0;
	const size_t left = *size - at, from = *size > 0 ? edit->value % *size : 0;
	uint32_t word = 0;

	switch ((edit->how & ~EDITS_PACK) % HOWS) {
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

static void edit_number(struct pack *pack, const struct edit *edit)
{
	const size_t n = pack->size / sizeof(uint64_t);
	const size_t at = ((size_t)edit->at | (size_t)edit->more << 16) % n * sizeof(uint64_t);
	uint64_t number;

	memcpy(&number, pack->bytes + at, sizeof(number));
	switch ((edit->how & 0x3f) % STRUCTURED_HOWS) {
	case NUMBER_SET:
		number = edit->value;
		break;
	case NUMBER_ADD:
		number += edit->value;
		break;
	case NUMBER_COPY:
		memcpy(&number, pack->bytes + edit->value % n * sizeof(number), sizeof(number));
		break;
	default:
		number = 1ull << edit->value % 64;
	}
	memcpy(pack->bytes + at, &number, sizeof(number));
}

static void replace_fd(struct pack *pack, uint32_t at, int fd)
{
	assert(fd >= 0);
	close(pack->fds[at]);
	pack->fds[at] = fd;
}

static bool has_other_files;

/* The first one, which is the record's, is made anew. */
static void edit_fd(struct pack *pack, const struct edit *edit)
{
	const uint32_t at = edit->at % pack->n_fds, other = edit->value % pack->n_fds;
	const int fd = pack->fds[at];

	has_other_files = true;
	switch ((edit->how & 0x3f) % STRUCTURED_HOWS) {
	case FD_SWAP:
		pack->fds[at] = pack->fds[other];
		pack->fds[other] = fd;
		break;
	case FD_RESIZE:
		replace_fd(pack, at, make_memory(edit->value % (1ull << 40)));
		break;
	case FD_OTHER:
		replace_fd(pack, at, open(edit->value % 2 ? "/dev/null" : "/", O_CLOEXEC));
		break;
	default:
		while (pack->n_fds > MAX(at, 1u))
			close(pack->fds[--pack->n_fds]);
	}
}

static void edit_structure(struct pack *pack, const struct edit *edit)
{
	if ((edit->how & 0x3f) % STRUCTURED_HOWS >= FD_SWAP)
		edit_fd(pack, edit);
	else if (pack->size >= sizeof(uint64_t))
		edit_number(pack, edit);
}

/* The edited record, with a head that is right. */
static void edit_model(bool is_away, struct pack *pack, const uint8_t *data, size_t size)
{
	struct edit edit;
	size_t record_size;
	uint8_t *record = move_model_take(is_away, pack, &record_size);

	for (; size >= sizeof(edit); data += sizeof(edit), size -= sizeof(edit)) {
		memcpy(&edit, data, sizeof(edit));
		if (edit.how & STRUCTURED)
			edit_structure(pack, &edit);
		else if (edit.how & EDITS_PACK)
			edit_bytes(pack->bytes, &pack->size, &edit);
		else
			edit_bytes(record, &record_size, &edit);
	}
	close(pack->fds[0]);
	pack->fds[0] = make_file(record, record_size, move_model_n_images(is_away));
	free(record);
}

/* ---- mutations */

static uint64_t choose_value(unsigned dice)
{
	static const uint64_t values[] = {0, 1, 2, 64, 4096, HOST_PAGE, ARENA_PART, VA_WINDOW,
		DEVICE_SPACE, HOST_SPACE, UINT32_MAX, INT64_MAX, -4096ull, UINT64_MAX};

	return dice % 2 ? values[dice / 2 % ARRAY_SIZE(values)] : dice / 2 % 256;
}

/* Every other mutation adds an edit of a number or a descriptor, or replaces one. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	const size_t n = size > 0 ? (size - 1) / sizeof(struct edit) : 0;
	struct edit edit = {0};
	size_t at;

	if (size == 0 || data[0] == 0 || seed % 2)
		return LLVMFuzzerMutate(data, size, max_size);
	edit.how = (uint8_t)(STRUCTURED | (unsigned)rand_r(&seed) % STRUCTURED_HOWS);
	edit.at = (uint16_t)rand_r(&seed);
	edit.value = choose_value((unsigned)rand_r(&seed));
	at = 1 + (size_t)rand_r(&seed) % (n + 1) * sizeof(edit);
	if (max_size - sizeof(edit) < at)
		return LLVMFuzzerMutate(data, size, max_size);
	memcpy(data + at, &edit, sizeof(edit));
	return MAX(size, at + sizeof(edit));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pack pack = {0};
	int r, checked;

	if (size == 0)
		return 0;
	has_other_files = false;
	if (data[0] == 0)
		make_pack(&pack, data + 1, size - 1);
	else
		edit_model(data[0] % 2 == 0, &pack, data + 1, size - 1);
	harness_open(false);
	r = replay_unpack(harness.session, &pack);
	/* Without the state of the memory, a record is worth a try, too. */
	checked = r == 0 ? session_check(harness.session, &pack) : r;
	if (r == 0 && pack.at < pack.size) {
		r = session_unpack(harness.session, &pack);
		/* A file that is larger than the check allows is as good as another one. */
		assert(checked == 0 || r < 0 || has_other_files);
		harness.session->receiver.n_held = 0;
	}
	pack_fini(&pack);
	if (r == 0 && move_model_join() && away_return(harness.session)) {
		(void)replay_run(harness.session);
		launch_batch_flush(harness.session);
	}
	harness_close();
	return 0;
}
