/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: an image of code as a client seals it: its form, its parts, the search for kernels
 * that print, the entries of a fatbin, packed ones too, and the variables of a cubin,
 * __managed__ and others.
 */

#include <string.h>

#include "shm.h"
#include "server/util/image.h"
#include "server/module/cubin.h"
#include "server/module/fatbin.h"
#include "server/module/globals.h"
#include "server/module/machine_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes in separate memory, so that a sanitizer sees reads past the end. */
static void look_into(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size);
	char *text = NULL;
	size_t length;

	if (!bytes)
		return;
	memcpy(bytes, data, size);
	if (fatbin_is(bytes, size)) {
		fatbin_mentions(bytes, size, "vprintf");
		if (fatbin_find_ptx(bytes, size, 90, &text, &length) == 0 && text[length] != 0)
			abort();
	}
	free(text);
	free(bytes);
}

/* Takes the bytes. The variables get addresses as for a client. */
static void place_variables(uint8_t *bytes, size_t size)
{
	struct cubin cubin;
	uint8_t *memory;

	if (cubin_read(bytes, size, &cubin) < 0) {
		free(bytes);
		return;
	}
	memory = cubin.total < 1 << 20 ? calloc(1, cubin.total + 1) : NULL;
	if (memory && cubin_place(&cubin, 0x400000000000, cubin.total) == 0)
		cubin_initialise(&cubin, memory);
	(void)cubin_find(&cubin, "second");
	free(memory);
	cubin_fini(&cubin);
}

/* A loader that knows each second name. */
static int find_copy(void *arg, const char *name, uint64_t offset, uint64_t size)
{
	const struct globals *globals = arg;

	if (!range_ok(offset, size, globals->total))
		abort();
	return name[0] % 2 == 0 ? 0 : -ENOENT;
}

/* The same for other variables. */
static void place_globals(uint8_t *bytes, size_t size)
{
	struct globals globals;
	uint64_t offset, length;
	uint8_t *memory;

	if (globals_read(bytes, size, &globals) < 0) {
		free(bytes);
		return;
	}
	memory = calloc(1, globals.total + 1);
	if (memory && globals_place(&globals, 0x200000000000) == 0 &&
		globals_find_loaded(&globals, memory, find_copy, &globals) == 0)
		globals_initialise(&globals, memory);
	if (globals_find(&globals, "second", &offset, &length) == 0 &&
		!range_ok(offset, length, globals.total))
		abort();
	free(memory);
	globals_fini(&globals);
}

static void place_copy(const uint8_t *data, size_t size, void (*place)(uint8_t *bytes, size_t size))
{
	uint8_t *bytes = malloc(size + 1);

	if (!bytes)
		return;
	memcpy(bytes, data, size);
	bytes[size] = 0;
	place(bytes, size);
}

static void look_for_cubin(const uint8_t *data, size_t size)
{
	char *found = NULL;
	size_t length;

	if (!fatbin_is(data, size)) {
		place_copy(data, size, place_variables);
		place_copy(data, size, place_globals);
		return;
	}
	if (fatbin_find_cubin(data, size, 90, &found, &length) < 0)
		return;
	place_copy((const uint8_t *)found, length, place_globals);
	place_variables((uint8_t *)found, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = NULL;
	int fd = -EBADF;

	if (size == 0 || shm_create_image("fuzz", data, size, &fd) < 0)
		return 0;
	if (image_get(NULL, fd, size, &image) == 0) {
		_cleanup_account_ void *payer = account_alloc(NULL, 1, 0);
		const uint8_t *part;
		size_t part_size;

		image_abilities(image, payer);
		if (!image_code(image))
			abort();
		for (unsigned i = 0; (part = image_part(image, i, &part_size)); i++)
			if (part < (const uint8_t *)image->data ||
				part + part_size > (const uint8_t *)image->data + size)
				abort();
	}
	image_unref(image);
	close(fd);
	look_into(data, size);
	look_for_cubin(data, size);
	return 0;
}
