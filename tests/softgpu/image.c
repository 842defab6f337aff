/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of code: where they begin, how long they are, what they become.
 *
 * Runs in any thread; nothing here needs the driver's lock but code_unref(). An
 * image comes without a size, so its own header is believed, as the driver
 * does.
 */

#include "module.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define ELF_MAGIC 0x464c457fu
#define ELF_HEADER_SIZE 64
#define IMAGE_MAX ((size_t)1 << 30)
#define LOG_SIZE 2048

struct fatbin_wrapper {
	uint32_t magic;
	uint32_t version;
	const void *data;
	void *rest;
};

struct fatbin_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_size;
	uint64_t body_size;
};

CUresult image_find(const void *image, const void **ret_image, size_t *ret_size)
{
	struct fatbin_wrapper wrapper;
	struct fatbin_header header;
	uint32_t magic;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&magic, image, sizeof(magic));
	if (magic == WRAPPER_MAGIC) {
		memcpy(&wrapper, image, sizeof(wrapper));
		image = wrapper.data;
		if (!image)
			return CUDA_ERROR_INVALID_IMAGE;
		memcpy(&magic, image, sizeof(magic));
	}
	*ret_image = image;
	switch (magic) {
	case FATBIN_MAGIC:
		memcpy(&header, image, sizeof(header));
		if (header.body_size > IMAGE_MAX)
			return CUDA_ERROR_INVALID_IMAGE;
		*ret_size = header.header_size + header.body_size;
		return CUDA_SUCCESS;
	case ELF_MAGIC:
		*ret_size = ELF_HEADER_SIZE;
		return CUDA_SUCCESS;
	default:
		*ret_size = strlen(image) + 1;
		return CUDA_SUCCESS;
	}
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

static CUresult load_result(int r, const void *image)
{
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	switch (r) {
	case -ENOEXEC:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return magic == FATBIN_MAGIC || magic == ELF_MAGIC || strstr(image, ".version")
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
	jit_log(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, log);
	jit_log(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
	if (r < 0) {
		fprintf(stderr, "softgpu: cannot load an image: %s\n", *log ? log : strerror(-r));
		return load_result(r, image);
	}
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
