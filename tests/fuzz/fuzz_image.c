/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: an image of code as a client seals it: its shape, its parts, the look
 * for who can print, and the entries of a fatbin, packed ones too.
 */

#include <string.h>

#include "../../server/fatbin.h"
#include "../../server/image.h"
#include "../../server/text.h"
#include "shm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of its own, so that a sanitizer sees who reads behind them. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image = NULL;
	int fd = -EBADF;

	if (size == 0 || shm_create_image("fuzz", data, size, &fd) < 0)
		return 0;
	if (image_get(fd, size, &image) == 0) {
		image_prints(image);
		if (!image_code(image))
			abort();
	}
	image_unref(image);
	close(fd);
	look_into(data, size);
	return 0;
}
