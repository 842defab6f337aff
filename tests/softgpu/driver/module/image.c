/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of code: where they begin, their sizes, and their conversion.
 *
 * Runs in any thread; only code_unref() needs the driver's lock. An image comes
 * without a size, so its own header is trusted, as in the driver.
 */

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "module.h"
#include "tests/softgpu/ptx/parse/file.h"
#include "tests/softgpu/ptx/parse/parse.h"
#include "tests/softgpu/ptx/parse/texts.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define ELF_MAGIC 0x464c457fu
#define WRAPPER_LINKED 2u
#define IMAGE_MAX ((size_t)1 << 30)
#define LOG_SIZE 2048

struct fatbin_wrapper {
	uint32_t magic;
	uint32_t version;
	const void *data;
	void *const *parts; /* of a linked image: a list that ends with NULL */
};

struct fatbin_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_size;
	uint64_t body_size;
};

static CUresult elf_size(const uint8_t *image, size_t *ret_size)
{
	Elf64_Ehdr head;
	size_t size = sizeof(head);

	memcpy(&head, image, sizeof(head));
	if (head.e_shoff > IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	for (unsigned i = 0; i < head.e_shnum; i++) {
		Elf64_Shdr section;

		memcpy(&section, image + head.e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_offset > IMAGE_MAX || section.sh_size > IMAGE_MAX)
			return CUDA_ERROR_INVALID_IMAGE;
		if (section.sh_type != SHT_NOBITS)
			size = MAX(size, section.sh_offset + section.sh_size);
	}
	*ret_size = MAX(size, head.e_shoff + head.e_shnum * sizeof(Elf64_Shdr));
	return CUDA_SUCCESS;
}

/* Of an image without a wrapper. */
static CUresult image_size(const void *image, size_t *ret_size)
{
	struct fatbin_header header;
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	switch (magic) {
	case FATBIN_MAGIC:
		memcpy(&header, image, sizeof(header));
		if (header.body_size > IMAGE_MAX)
			return CUDA_ERROR_INVALID_IMAGE;
		*ret_size = header.header_size + header.body_size;
		return CUDA_SUCCESS;
	case ELF_MAGIC:
		return elf_size(image, ret_size);
	default:
		*ret_size = strlen(image) + 1;
		return CUDA_SUCCESS;
	}
}

static CUresult copy_one(const void *image, void **ret_copy, size_t *ret_size)
{
	CUresult result = image_size(image, ret_size);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_copy = malloc(*ret_size);
	if (!*ret_copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(*ret_copy, image, *ret_size);
	return CUDA_SUCCESS;
}

/* An image that nvcc has linked is machine code; it also has the parts it was linked from. */
static CUresult copy_linked(void *const *parts, void **ret_copy, size_t *ret_size)
{
	_cleanup_(ptx_texts_fini) struct ptx_texts texts = {0};
	char said[LOG_SIZE] = "";
	struct ptx_log log = {.text = said, .size = sizeof(said)};

	for (; *parts; parts++) {
		size_t size;
		CUresult result = image_size(*parts, &size);
		int r;

		if (result != CUDA_SUCCESS)
			return result;
		r = ptx_texts_add(&texts, *parts, size, &log);
		if (r == 0)
			continue;
		fprintf(stderr, "softgpu: cannot link an image: %s\n", said);
		return r == -ENOEXEC  ? CUDA_ERROR_NO_BINARY_FOR_GPU
		       : r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
				      : CUDA_ERROR_INVALID_IMAGE;
	}
	return ptx_file_make(texts.texts, texts.n, NULL, NULL, 0, 0, ret_copy, ret_size) == 0
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult image_copy(const void *image, void **ret_copy, size_t *ret_size)
{
	struct fatbin_wrapper wrapper;
	uint32_t magic;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&magic, image, sizeof(magic));
	if (magic != WRAPPER_MAGIC)
		return copy_one(image, ret_copy, ret_size);
	memcpy(&wrapper, image, sizeof(wrapper));
	if (!wrapper.data)
		return CUDA_ERROR_INVALID_IMAGE;
	if (wrapper.version == WRAPPER_LINKED && wrapper.parts && wrapper.parts[0])
		return copy_linked(wrapper.parts, ret_copy, ret_size);
	return copy_one(wrapper.data, ret_copy, ret_size);
}

CUresult image_read(const char *path, void **ret_image, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *image = NULL;
	struct stat st;
	size_t size = 0;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_OPERATING_SYSTEM;
	if (fstat(fd, &st) < 0 || st.st_size < 0 || (size_t)st.st_size > IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	image = calloc(1, (size_t)st.st_size + sizeof(struct fatbin_header));
	if (!image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (size < (size_t)st.st_size) {
		n = read(fd, image + size, (size_t)st.st_size - size);
		if (n <= 0)
			return CUDA_ERROR_OPERATING_SYSTEM;
		size += (size_t)n;
	}
	*ret_size = size;
	*ret_image = TAKE_PTR(image);
	return CUDA_SUCCESS;
}

static void jit_log(const struct jit *jit, CUjit_option buffer, CUjit_option size, const char *text)
{
	char *out = NULL;
	size_t room = 0;
	unsigned at = 0;

	for (unsigned i = 0; i < jit->n_options; i++) {
		if (jit->options[i] == buffer)
			out = jit->values[i];
		if (jit->options[i] != size)
			continue;
		room = (uint32_t)(uintptr_t)jit->values[i];
		at = i;
	}
	if (!out || room == 0)
		return;
	snprintf(out, room, "%s", text);
	jit->values[at] = (void *)(uintptr_t)strlen(out);
}

void jit_say(const struct jit *jit, const char *error, const char *info)
{
	jit_log(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error);
	jit_log(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info);
}

uint32_t jit_max_regs(const struct jit *jit)
{
	for (unsigned i = 0; i < jit->n_options; i++)
		if (jit->options[i] == CU_JIT_MAX_REGISTERS)
			return (uint32_t)(uintptr_t)jit->values[i];
	return 0;
}

static CUresult load_result(int r, const void *image, size_t size)
{
	static const char version[] = ".version";
	uint32_t magic = 0;

	memcpy(&magic, image, MIN(size, sizeof(magic)));
	switch (r) {
	case -ENOEXEC:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return magic == FATBIN_MAGIC || magic == ELF_MAGIC ||
				       memmem(image, size, version, sizeof(version) - 1)
			       ? CUDA_ERROR_INVALID_PTX
			       : CUDA_ERROR_INVALID_IMAGE;
	}
}

CUresult code_new(const void *image, size_t size, const struct jit *jit, struct code **ret_code)
{
	_cleanup_free_ struct code *code = calloc(1, sizeof(*code));
	char log[LOG_SIZE] = "";
	int r;

	if (!code)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = ptx_module_new(image, size, log, sizeof(log), &code->ptx);
	jit_say(jit, log, "");
	if (r < 0) {
		fprintf(stderr, "softgpu: cannot load an image: %s\n", *log ? log : strerror(-r));
		return load_result(r, image, size);
	}
	if (jit_max_regs(jit))
		ptx_module_limit_registers(code->ptx, jit_max_regs(jit));
	code->refs = 1;
	*ret_code = TAKE_PTR(code);
	return CUDA_SUCCESS;
}

void code_unref(struct code *code)
{
	if (!code || --code->refs > 0)
		return;
	ptx_module_free(code->ptx);
	free(code);
}
