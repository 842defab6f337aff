/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program's settings for GPU core dumps. Any thread of the application.
 *
 * Invariant: settings are stored per process and per context and returned, but have
 * no effect: a fault ends the server's context.
 */

#include "coredump.h"

#include <string.h>

#include "context.h"
#include "lock.h"
#include "client/util/log.h"

/* Bytes of a path, including the NUL. */
#define PATH_BYTES 1024

struct coredump {
	unsigned set_mask; /* one bit per attribute that was set */
	bool is_on_exception, has_trigger;
	unsigned flags; /* TRIGGER_HOST and LIGHTWEIGHT stand for some of them */
	char file[PATH_BYTES], pipe[PATH_BYTES];
};

static struct lock coredump_lock = LOCK_INIT(COREDUMP);
/* No file or pipe is set by default, as in the driver. */
static struct coredump of_process = {.set_mask = ~0u};

void coredump_end_context(struct context *context)
{
	lock_hold(&coredump_lock);
	free(context->coredump);
	context->coredump = NULL;
}

/* 0: no such attribute. */
static size_t size_of(CUcoredumpSettings attribute)
{
	switch (attribute) {
	case CU_COREDUMP_ENABLE_ON_EXCEPTION:
	case CU_COREDUMP_TRIGGER_HOST:
	case CU_COREDUMP_LIGHTWEIGHT:
	case CU_COREDUMP_ENABLE_USER_TRIGGER:
		return sizeof(bool);
	case CU_COREDUMP_FILE:
	case CU_COREDUMP_PIPE:
		return PATH_BYTES;
	case CU_COREDUMP_GENERATION_FLAGS:
		return sizeof(unsigned);
	default:
		return 0;
	}
}

static unsigned bit_of(CUcoredumpSettings attribute)
{
	bool is_flag =
		attribute == CU_COREDUMP_LIGHTWEIGHT || attribute == CU_COREDUMP_TRIGGER_HOST;

	return 1u << (is_flag ? CU_COREDUMP_GENERATION_FLAGS : attribute);
}

static void copy_text(char *value, size_t size, const char *text)
{
	size_t length;

	if (size == 0)
		return; /* the driver would write a NUL */
	length = MIN(strlen(text), size - 1);
	memcpy(value, text, length);
	value[length] = '\0';
}

static void read_value(
	const struct coredump *from, CUcoredumpSettings attribute, void *value, size_t size)
{
	switch (attribute) {
	case CU_COREDUMP_ENABLE_ON_EXCEPTION:
		*(bool *)value = from->is_on_exception;
		break;
	case CU_COREDUMP_TRIGGER_HOST:
		*(bool *)value = !(from->flags & CU_COREDUMP_SKIP_ABORT);
		break;
	case CU_COREDUMP_LIGHTWEIGHT:
		*(bool *)value = (from->flags & CU_COREDUMP_LIGHTWEIGHT_FLAGS) ==
				 CU_COREDUMP_LIGHTWEIGHT_FLAGS;
		break;
	case CU_COREDUMP_ENABLE_USER_TRIGGER:
		*(bool *)value = from->has_trigger;
		break;
	case CU_COREDUMP_GENERATION_FLAGS:
		*(unsigned *)value = from->flags;
		break;
	default:
		copy_text(value, size, attribute == CU_COREDUMP_FILE ? from->file : from->pipe);
	}
}

static void write_value(
	struct coredump *to, CUcoredumpSettings attribute, const void *value, size_t size)
{
	char *text = attribute == CU_COREDUMP_FILE ? to->file : to->pipe;

	if (!(to->set_mask & (1u << CU_COREDUMP_GENERATION_FLAGS)))
		to->flags = of_process.flags;
	to->set_mask |= bit_of(attribute);
	switch (attribute) {
	case CU_COREDUMP_ENABLE_ON_EXCEPTION:
		to->is_on_exception = *(const bool *)value;
		break;
	case CU_COREDUMP_TRIGGER_HOST:
		to->flags &= ~(unsigned)CU_COREDUMP_SKIP_ABORT;
		to->flags |= *(const bool *)value ? 0 : CU_COREDUMP_SKIP_ABORT;
		break;
	case CU_COREDUMP_LIGHTWEIGHT:
		to->flags &= ~(unsigned)CU_COREDUMP_LIGHTWEIGHT_FLAGS;
		to->flags |= *(const bool *)value ? CU_COREDUMP_LIGHTWEIGHT_FLAGS : 0;
		break;
	case CU_COREDUMP_ENABLE_USER_TRIGGER:
		to->has_trigger = *(const bool *)value;
		break;
	case CU_COREDUMP_GENERATION_FLAGS:
		to->flags = *(const unsigned *)value;
		break;
	default:
		size = MIN(strnlen(value, size), (size_t)PATH_BYTES - 1);
		memcpy(text, value, size);
		text[size] = '\0';
	}
}

static bool setting_is_text(CUcoredumpSettings attribute)
{
	return attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE;
}

/*
 * The result if only the size was requested or an argument is wrong; otherwise
 * CUDA_ERROR_NOT_READY.
 */
static CUresult check_setting(const struct context *context, CUcoredumpSettings attribute,
	const void *value, size_t *size)
{
	size_t wanted = size_of(attribute);

	if (wanted == 0 || !size)
		return CUDA_ERROR_INVALID_VALUE;
	/* A process has only one pipe. */
	if (context &&
		(attribute == CU_COREDUMP_PIPE || attribute == CU_COREDUMP_ENABLE_USER_TRIGGER))
		return CUDA_ERROR_INVALID_VALUE;
	if (!value) {
		*size = wanted;
		return CUDA_SUCCESS;
	}
	return setting_is_text(attribute) || *size == wanted ? CUDA_ERROR_NOT_READY
							     : CUDA_ERROR_INVALID_VALUE;
}

CUresult coredump_get(
	const struct context *context, CUcoredumpSettings attribute, void *value, size_t *size)
{
	CUresult result = check_setting(context, attribute, value, size);
	const struct coredump *own;

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	lock_hold(&coredump_lock);
	own = context ? context->coredump : NULL;
	read_value(own && (own->set_mask & bit_of(attribute)) ? own : &of_process, attribute, value,
		*size);
	return CUDA_SUCCESS;
}

/* Under the lock. An open pipe cannot be moved. */
static CUresult set_locked(
	struct context *context, CUcoredumpSettings attribute, const void *value, size_t size)
{
	if (attribute == CU_COREDUMP_PIPE && of_process.has_trigger)
		return CUDA_ERROR_NOT_PERMITTED;
	if (context && !context->coredump)
		context->coredump = calloc(1, sizeof(*context->coredump));
	if (context && !context->coredump)
		return CUDA_ERROR_OUT_OF_MEMORY;
	write_value(context ? context->coredump : &of_process, attribute, value, size);
	return CUDA_SUCCESS;
}

CUresult coredump_set(
	struct context *context, CUcoredumpSettings attribute, const void *value, size_t *size)
{
	CUresult result = check_setting(context, attribute, value, size);

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	if (*size == 0) /* for a text */
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION && *(const bool *)value)
		log_refused("core dumps", "a GPU fault occurs in the server, which cannot write a "
					  "core dump of this process");
	lock_hold(&coredump_lock);
	return set_locked(context, attribute, value, *size);
}
