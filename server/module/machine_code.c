/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Extracts machine code from images. A worker.
 *
 * Invariant: the result is a copy, which the caller may change.
 */

#include "machine_code.h"

#include <elf.h>
#include <stdatomic.h>
#include <string.h>

#include "cubin.h"
#include "fatbin.h"
#include "globals.h"
#include "jit.h"
#include "ptx_variables.h"
#include "server/util/image.h"
#include "server/device/device.h"

/* The client pays only for the image. */
#define CODE_MAX ((size_t)64 << 20)

/* The largest size of an entry that is believed: no code is larger. */
#define UNPACKED_MAX ((uint64_t)1 << 40)

/* Larger images are libraries, whose kernels print when they fail. A search takes 1 ms per MiB. */
#define IMAGE_LOOK_MAX (4u << 20)

static uint32_t arch_of(const struct device *device)
{
	const int32_t *fact = device->facts.attribute;

	return (uint32_t)(fact[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] * 10 +
			  fact[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]);
}

static int copy_bytes(const void *data, size_t size, uint8_t **ret_bytes)
{
	uint8_t *bytes;

	if (size > CODE_MAX)
		return -EFBIG;
	bytes = malloc(size + 1);
	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, data, size);
	bytes[size] = 0;
	*ret_bytes = bytes;
	return 0;
}

static bool is_elf(const struct image *image)
{
	return image->size >= SELFMAG && memcmp(image->data, ELFMAG, SELFMAG) == 0;
}

int machine_code_find(const struct image *image, const struct device *device, uint8_t **ret_bytes,
	size_t *ret_size)
{
	if (fatbin_is(image->data, image->size))
		return fatbin_find_cubin(
			image->data, image->size, arch_of(device), (char **)ret_bytes, ret_size);
	if (!is_elf(image))
		return -ENOEXEC;
	*ret_size = image->size;
	return copy_bytes(image->data, image->size, ret_bytes);
}

/* The sizes for a linked image, or for the parts from which it may be linked again. */
static void find_largest(const struct image *image, uint64_t *ret_code, uint64_t *ret_text)
{
	uint64_t all_code = 0, all_text = 0, code, text;
	const void *part;
	size_t size;

	for (unsigned i = 0; (part = image_part(image, i, &size)); i++) {
		fatbin_largest(part, size, &code, &text);
		/* Entries have the size that they give, and are too few for the sum to wrap. */
		all_code += MIN(code, UNPACKED_MAX);
		all_text += MIN(text, UNPACKED_MAX);
	}
	fatbin_largest(image->data, image->size, &code, &text);
	*ret_code = MAX(all_code, MIN(code, UNPACKED_MAX));
	*ret_text = MAX(all_text, MIN(text, UNPACKED_MAX));
}

uint64_t machine_code_unpacked(const struct image *image)
{
	uint64_t code, text;

	if (!fatbin_is(image->data, image->size))
		return 0;
	find_largest(image, &code, &text);
	return MAX(code, text);
}

uint64_t machine_code_most(const struct image *image, bool is_made)
{
	uint64_t size = MAX(machine_code_unpacked(image), image->size);

	return is_made ? size + KEPT_LINKER + KEPT_INPUT(size) : size;
}

uint64_t machine_code_kept(const struct image *image)
{
	uint64_t code, text;

	if (is_elf(image))
		return KEPT_CODE(image->size);
	if (!fatbin_is(image->data, image->size))
		return KEPT_TEXT(image->size);
	find_largest(image, &code, &text);
	return code > 0 ? KEPT_CODE(code) : KEPT_TEXT(text);
}

static CUresult machine_code_add(
	CUlinkState linker, CUjitInputType type, const void *data, size_t size)
{
	return cuda.cuLinkAddData_v2(
		linker, type, (void *)(uintptr_t)data, size, "image", 0, NULL, NULL);
}

/* Code that nvcc has linked for another GPU is linked again, as in the driver. */
static CUresult add_parts(CUlinkState linker, const struct image *image)
{
	CUresult result = CUDA_SUCCESS;
	const void *part;
	size_t size;

	for (unsigned i = 0; result == CUDA_SUCCESS && (part = image_part(image, i, &size)); i++)
		result = machine_code_add(linker, CU_JIT_INPUT_FATBINARY, part, size);
	return result;
}

static CUresult add_text(CUlinkState linker, const struct image *image, const struct device *device)
{
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (is_elf(image))
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (!fatbin_is(image->data, image->size))
		return machine_code_add(linker, CU_JIT_INPUT_PTX, image->data, image->size);
	switch (fatbin_find_ptx(image->data, image->size, arch_of(device), &text, &size)) {
	case 0:
		return machine_code_add(linker, CU_JIT_INPUT_PTX, text, size + 1);
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
}

/* The linker writes the values of some options, so it gets a copy of them. */
static CUresult create_linker(const struct jit *jit, struct jit *copy, CUlinkState *ret_linker)
{
	*copy = (struct jit){0};
	for (unsigned i = jit ? jit->first : 0; jit && i < jit->n; i++) {
		copy->options[copy->n] = jit->options[i];
		copy->values[copy->n++] = jit->values[i];
	}
	return cuda.cuLinkCreate_v2(copy->n, copy->options, copy->values, ret_linker);
}

CUresult machine_code_make(const struct image *image, const struct device *device,
	const struct jit *jit, uint8_t **ret_bytes, size_t *ret_size)
{
	struct jit options;
	CUlinkState linker;
	void *made = NULL;
	CUresult result = create_linker(jit, &options, &linker);

	if (result != CUDA_SUCCESS)
		return result;
	result = image->linked ? add_parts(linker, image) : add_text(linker, image, device);
	if (result == CUDA_SUCCESS)
		result = cuda.cuLinkComplete(linker, &made, ret_size);
	if (result == CUDA_SUCCESS && copy_bytes(made, *ret_size, ret_bytes) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	cuda.cuLinkDestroy(linker);
	return result;
}

static uint64_t variables_of_text(
	const void *data, size_t size, bool is_whole, const struct device *device)
{
	_cleanup_free_ char *text = NULL;
	size_t length;

	if (!fatbin_is(data, size))
		return ptx_variables(data, size, is_whole);
	if (fatbin_find_ptx(data, size, arch_of(device), &text, &length) < 0)
		return 0;
	return ptx_variables(text, length, is_whole);
}

uint64_t machine_code_variables(const struct image *image, const struct device *device)
{
	uint8_t *bytes = NULL;
	uint64_t total = 0;
	const void *part;
	size_t size;

	if (machine_code_find(image, device, &bytes, &size) == 0) {
		total = cubin_variables(bytes, size);
		free(bytes);
		return total;
	}
	if (is_elf(image))
		return 0;
	if (!image->linked)
		return variables_of_text(image->data, image->size, true, device);
	for (unsigned i = 0; (part = image_part(image, i, &size)); i++)
		if (__builtin_add_overflow(
			    total, variables_of_text(part, size, false, device), &total))
			return UINT64_MAX;
	return total;
}

int machine_code_stays(const struct image *image, const struct device *device)
{
	uint8_t *bytes = NULL;
	size_t size;
	int r = machine_code_find(image, device, &bytes, &size);

	if (r == -ENOEXEC && machine_code_variables(image, device) > 0)
		return -ENOTSUP;
	/* The driver links it from its parts. It compiles one text to code that is not linked. */
	if (r == -ENOEXEC)
		return image->linked ? -EXDEV : 0;
	if (r < 0)
		return -ENOTSUP;
	if (cubin_variables(bytes, size) > 0)
		r = -ENOTSUP;
	else if (globals_takes_functions(bytes, size))
		r = -EXDEV;
	free(bytes);
	return r;
}

/* -errno: the word was not found, and some bytes were not read. */
static int find_word(const struct image *image, const char *word)
{
	const void *part;
	size_t size;
	int r = fatbin_mentions(image->data, image->size, word), unread = MIN(r, 0);

	for (unsigned i = 0; r <= 0 && (part = image_part(image, i, &size)); i++) {
		r = fatbin_mentions(part, size, word);
		unread = MIN(r, unread);
	}
	return r > 0 ? r : unread;
}

bool machine_code_would_mention(const struct image *image, const char *word)
{
	return find_word(image, word) > 0;
}

/* Whether the code that the driver would choose for the GPU has the word, as find_word(). */
static int find_in_code(const struct image *image, const struct device *device, const char *word)
{
	uint8_t *bytes = NULL;
	size_t size;
	int r = machine_code_find(image, device, &bytes, &size);

	if (r == -ENOEXEC)
		return find_word(image, word);
	if (r == 0)
		r = memmem(bytes, size, word, strlen(word)) != NULL;
	free(bytes);
	return r;
}

bool image_allocates(struct image *image, void *payer, bool may_look)
{
	const unsigned looked = 8, found = 16;
	unsigned seen = atomic_load_explicit(&image->abilities, memory_order_relaxed);
	uint64_t size;

	if (seen & looked || !may_look)
		return seen & found;
	size = MAX(machine_code_unpacked(image), image->size);
	if (!account_keep(payer, size))
		return true;
	seen = looked;
	for (uint32_t i = 0; i < devices_count() && !(seen & found); i++)
		if (find_in_code(image, device_get(i), "malloc") != 0)
			seen |= found;
	account_unkeep(payer, size);
	atomic_fetch_or_explicit(&image->abilities, seen, memory_order_relaxed);
	return seen & found;
}

unsigned image_abilities(struct image *image, void *payer)
{
	const unsigned looked = 1;
	unsigned abilities = atomic_load_explicit(&image->abilities, memory_order_relaxed);

	if (abilities & looked)
		return abilities;
	abilities = looked;
	if (image->size <= IMAGE_LOOK_MAX) {
		uint64_t size = machine_code_unpacked(image);

		/* The search may have to unpack the image. */
		if (!account_keep(payer, size))
			return 0;
		if (fatbin_mentions(image->data, image->size, "vprintf") > 0)
			abilities |= IMAGE_PRINTS;
		/* Functions of the GPU's runtime, and of the driver below it. */
		if (machine_code_would_mention(image, "LaunchDevice"))
			abilities |= IMAGE_LAUNCHES;
		account_unkeep(payer, size);
	}
	atomic_fetch_or_explicit(&image->abilities, abilities, memory_order_relaxed);
	return abilities;
}
