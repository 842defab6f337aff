/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the record of a session as another process sends it, from which a session over the
 * counting driver makes its objects. The head of the file is right, as far as a fuzzer would need
 * long to find it; an image comes with it. The session has to end as any other.
 */

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "session_harness.h"
#include "spec_hash.h"
#include "server/record/record_file.h"
#include "server/record/record_script.h"
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

static int *make_image(void)
{
	static const char image[] = "fake image";
	int *fds = malloc(sizeof(*fds));

	assert(fds);
	fds[0] = memfd_create("image", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	assert(fds[0] >= 0 && write(fds[0], image, sizeof(image)) == sizeof(image));
	assert(fcntl(fds[0], F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	return fds;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = make_file(data, size);
	struct record_script *script;

	harness_open(false);
	if (record_load(fd, make_image(), 1, &script) == 0) {
		replay_expect(harness.session, script);
		(void)replay_run(harness.session);
		launch_batch_flush(harness.session);
	}
	close(fd);
	harness_close();
	return 0;
}
