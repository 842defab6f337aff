/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of streams, their threads, and the rules of the default stream.
 *
 * Runs in any thread, under the driver's lock; stream_main() is the streams'
 * threads. Work depends only on work with a lower ticket, so there is no
 * deadlock.
 */

#include "stream.h"

#include <signal.h>

#include "channels.h"
#include "context.h"
#include "green.h"
#include "queue.h"
#include "trigger.h"
#include "tests/softgpu/driver/graph/capture.h"

#define QUEUE_DEPTH 1024
#define IDLE_NS 50000000

static uint64_t last_ticket;

bool stream_is_null(const struct stream *stream)
{
	return stream == (stream->is_green ? stream->green ? stream->green->null_stream : NULL
					   : stream->context->null_stream);
}

struct stream *stream_new_in(
	struct context *context, struct green *green, unsigned flags, int priority)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	channels_take(context->device, 1, 0);
	stream->context = context;
	stream->is_green = green != NULL;
	stream->green = green;
	stream->refs = 1;
	stream->flags = flags;
	stream->priority = MIN(MAX(priority, STREAM_PRIORITY_GREATEST), 0);
	stream->settings = (struct stream_settings){.policy = -1, .domains = {.remote = 1}};
	stream->id = ++driver.last_id;
	stream->queue = queue_home(stream);
	stream->tail = &stream->head;
	pthread_cond_init(&stream->wake, NULL);
	stream->next = context->streams;
	context->streams = stream;
	return stream;
}

struct stream *stream_new(struct context *context, unsigned flags, int priority)
{
	return stream_new_in(context, NULL, flags, priority);
}

struct stream *stream_ref(struct stream *stream)
{
	stream->refs++;
	return stream;
}

void stream_unref(struct stream *stream)
{
	if (!stream || --stream->refs > 0)
		return;
	pthread_cond_destroy(&stream->wake);
	free(stream);
}

/* Removes a closed stream with an empty queue from its context. */
static void stream_unlink(struct stream *stream)
{
	struct stream **link = &stream->context->streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	channels_leave(stream->context->device, 1, 0);
	pthread_cond_broadcast(&driver.progress);
	stream_unref(stream);
}

static void op_free(struct op *op)
{
	for (uint32_t i = 0; i < op->n_dependencies; i++) {
		stream_unref(op->dependencies[i].stream);
		trigger_unref(op->dependencies[i].trigger);
	}
	free(op->dependencies);
	work_fini(&op->work);
	free(op);
}

/* Whether queued work is dropped: after a fault, or when the context ends. */
static bool stream_is_dead(const struct stream *stream)
{
	return stream->is_dropped || driver.fault != CUDA_SUCCESS;
}

static bool is_met(const struct dependency *on)
{
	return stream_reached(on->stream, on->ticket) || (on->trigger && on->trigger->is_pulled);
}

static void op_wait_dependencies(struct stream *stream, const struct op *op)
{
	for (uint32_t i = 0; i < op->n_dependencies; i++)
		while (!is_met(&op->dependencies[i]) && !stream_is_dead(stream))
			pthread_cond_wait(&driver.progress, &driver.lock);
}

static void op_run(struct stream *stream, struct op *op)
{
	CUresult result = CUDA_SUCCESS;

	if (stream_is_dead(stream)) {
		result = driver.fault != CUDA_SUCCESS ? driver.fault
						      : CUDA_ERROR_CONTEXT_IS_DESTROYED;
		if (op->work.kind != WORK_CALLBACK)
			return;
	}
	pthread_mutex_unlock(&driver.lock);
	if (result == CUDA_SUCCESS)
		result = work_run(&op->work, stream);
	else
		work_abort(&op->work, result);
	pthread_mutex_lock(&driver.lock);
	if (result != CUDA_SUCCESS && !stream->is_dropped)
		streams_fault(result);
}

/* False: no work has come for a while. */
static bool wait_for_op(struct stream *stream)
{
	struct timespec deadline;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_nsec += IDLE_NS;
	deadline.tv_sec += deadline.tv_nsec / 1000000000;
	deadline.tv_nsec %= 1000000000;
	while (!stream->head && !stream->is_closing && r == 0)
		r = pthread_cond_timedwait(&stream->wake, &driver.lock, &deadline);
	return stream->head || stream->is_closing;
}

/* The thread of an unused stream ends, because there may be many streams. */
static void *stream_main(void *arg)
{
	struct stream *stream = arg;
	struct op *op;

	/* A new thread inherits the name of its creator, for which tests look. */
	pthread_setname_np(pthread_self(), "softgpu-stream");
	pthread_mutex_lock(&driver.lock);
	while (stream->head || !stream->is_closing) {
		op = stream->head;
		if (!op && !wait_for_op(stream)) {
			stream->has_thread = false;
			stat_add(STAT_THREADS, -1);
			pthread_mutex_unlock(&driver.lock);
			return NULL;
		}
		if (!op)
			continue;
		op_wait_dependencies(stream, op);
		op_run(stream, op);
		stream->head = op->next;
		stream->n_queued--;
		if (!stream->head)
			stream->tail = &stream->head;
		op_free(op);
		pthread_cond_broadcast(&driver.progress);
	}
	stat_add(STAT_THREADS, -1);
	stream_unlink(stream);
	pthread_mutex_unlock(&driver.lock);
	return NULL;
}

/* Signals from outside go only to the program's own threads. */
static int stream_start(struct stream *stream)
{
	/* What an instruction of a host function causes: a blocked one would end the process. */
	static const int own_errors[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	guard_init();
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(own_errors); i++)
		sigdelset(&all, own_errors[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, &attr, stream_main, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (r != 0)
		return -r;
	stream->has_thread = true;
	stat_add(STAT_THREADS, 1);
	return 0;
}

static CUresult op_depend_early(
	struct op *op, struct stream *on, uint64_t ticket, struct trigger *trigger)
{
	struct dependency *grown;

	if (stream_reached(on, ticket))
		return CUDA_SUCCESS;
	grown = realloc(op->dependencies, (op->n_dependencies + 1) * sizeof(*grown));
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->dependencies = grown;
	op->dependencies[op->n_dependencies++] =
		(struct dependency){stream_ref(on), ticket, trigger_ref(trigger)};
	return CUDA_SUCCESS;
}

static CUresult op_depend(struct op *op, struct stream *on, uint64_t ticket)
{
	return op_depend_early(op, on, ticket, NULL);
}

/*
 * The rules of the legacy default stream: its work waits for the work of every
 * blocking stream of the context, and their work for its work. The rules do not
 * hold in green contexts (measured).
 */
static CUresult op_depend_default(struct op *op, struct stream *stream)
{
	struct context *context = stream->context;
	CUresult result = CUDA_SUCCESS;

	if (stream->flags & CU_STREAM_NON_BLOCKING || stream->is_green)
		return CUDA_SUCCESS;
	if (!stream_is_null(stream))
		return op_depend(op, context->null_stream, context->null_stream->submitted);
	for (struct stream *other = context->streams; other; other = other->next)
		if (other != stream && !(other->flags & CU_STREAM_NON_BLOCKING) &&
			!other->is_green && result == CUDA_SUCCESS)
			result = op_depend(op, other, other->submitted);
	return result;
}

static CUresult op_submit(struct stream *stream, struct op *op)
{
	CUresult result = op_depend_default(op, stream);
	struct dependency before;

	if (result == CUDA_SUCCESS && queue_put(stream, &op->work, &before))
		result = op_depend(op, before.stream, before.ticket);
	if (result == CUDA_SUCCESS && !stream->has_thread && stream_start(stream) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		op_free(op);
		return result;
	}
	op->ticket = ++last_ticket;
	stream->submitted = op->ticket;
	queue_note(stream, &op->work, op->ticket);
	*stream->tail = op;
	stream->tail = &op->next;
	stream->n_queued++;
	pthread_cond_signal(&stream->wake);
	return CUDA_SUCCESS;
}

/* Like the real driver, which waits for room with its lock held: all other calls wait too. */
static void wait_for_room(struct stream *stream)
{
	if (stream->n_queued < QUEUE_DEPTH)
		return;
	stream_ref(stream);
	driver.is_held = true;
	while (stream->n_queued >= QUEUE_DEPTH && !stream_is_dead(stream))
		pthread_cond_wait(&driver.progress, &driver.lock);
	driver.is_held = false;
	pthread_cond_broadcast(&driver.progress);
	stream_unref(stream);
}

CUresult stream_submit(struct stream *stream, struct work *work)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op) {
		work_fini(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	op->work = *work;
	return op_submit(stream, op);
}

CUresult stream_push(struct stream *stream, struct work *work)
{
	if (stream->capture)
		return capture_push(stream, work);
	if (capture_blocks(stream)) {
		work_fini(work);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	wait_for_room(stream);
	return stream_submit(stream, work);
}

CUresult stream_depend(struct stream *stream, struct stream *on, uint64_t ticket)
{
	return stream_depend_early(stream, on, ticket, NULL);
}

CUresult stream_depend_early(
	struct stream *stream, struct stream *on, uint64_t ticket, struct trigger *trigger)
{
	struct op *op = calloc(1, sizeof(*op));
	CUresult result;

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = op_depend_early(op, on, ticket, trigger);
	if (result == CUDA_SUCCESS && op->n_dependencies > 0)
		return op_submit(stream, op);
	op_free(op);
	return result;
}

bool stream_reached(const struct stream *stream, uint64_t ticket)
{
	return !stream->head || stream->head->ticket > ticket;
}

CUresult stream_wait(struct stream *stream, uint64_t ticket)
{
	return stream_wait_early(stream, ticket, NULL);
}

CUresult stream_wait_early(struct stream *stream, uint64_t ticket, const struct trigger *trigger)
{
	stream_ref(stream);
	while (!stream_reached(stream, ticket) && !(trigger && trigger->is_pulled) &&
		driver.fault == CUDA_SUCCESS)
		pthread_cond_wait(&driver.progress, &driver.lock);
	stream_unref(stream);
	return driver.fault;
}

CUresult stream_finish(struct stream *stream, bool is_waited)
{
	if (is_waited)
		return stream_wait(stream, stream->submitted);
	stream->left = stream->submitted;
	return CUDA_SUCCESS;
}

/* NULL: no stream is busy. */
static struct stream *stream_left(const struct context *context)
{
	for (struct stream *stream = context->streams; stream; stream = stream->next)
		if (!stream_reached(stream, stream->left))
			return stream;
	return NULL;
}

CUresult streams_catch_up(struct context *context)
{
	struct stream *stream;
	CUresult result = CUDA_SUCCESS;

	/* The context may be destroyed while the lock is released. */
	while (result == CUDA_SUCCESS && object_find(OBJECT_CONTEXT, context) &&
		(stream = stream_left(context)))
		result = stream_wait(stream, stream->left);
	return result;
}

bool streams_reached(const struct context *context, const struct green *green, uint64_t ticket)
{
	for (struct stream *stream = context->streams; stream; stream = stream->next)
		if ((!green || stream->green == green) && !stream_reached(stream, ticket))
			return false;
	return true;
}

uint64_t streams_ticket(void)
{
	return last_ticket;
}

CUresult streams_depend(struct stream *stream, struct context *on, uint64_t ticket)
{
	CUresult result = CUDA_SUCCESS;

	for (struct stream *other = on->streams; other && result == CUDA_SUCCESS;
		other = other->next)
		if (other != stream)
			result = stream_depend(stream, other, ticket);
	return result;
}

CUresult streams_wait_ticket(struct context *context, const struct green *green, uint64_t ticket)
{
	/* The context may be destroyed while the lock is released, so it is looked up again. */
	while (object_find(OBJECT_CONTEXT, context) && !streams_reached(context, green, ticket) &&
		driver.fault == CUDA_SUCCESS)
		pthread_cond_wait(&driver.progress, &driver.lock);
	return driver.fault;
}

CUresult streams_wait_green(struct context *context, const struct green *green)
{
	return streams_wait_ticket(context, green, last_ticket);
}

CUresult streams_wait(struct context *context)
{
	return streams_wait_green(context, NULL);
}

void stream_close(struct stream *stream)
{
	if (stream->object.kind != OBJECT_NONE) {
		object_remove(&stream->object);
		stat_add(STAT_STREAMS, -1);
	}
	capture_abandon(stream);
	stream->is_closing = true;
	pthread_cond_signal(&stream->wake);
	if (!stream->has_thread)
		stream_unlink(stream);
}

void streams_drop(struct context *context)
{
	struct stream *next;

	for (struct stream *stream = context->streams; stream; stream = next) {
		next = stream->next;
		stream->is_dropped = true;
		atomic_store_explicit(&stream->cancelled, true, memory_order_relaxed);
		stream_close(stream);
	}
	pthread_cond_broadcast(&driver.progress);
	while (context->streams)
		pthread_cond_wait(&driver.progress, &driver.lock);
}

void streams_fault(CUresult fault)
{
	if (driver.fault != CUDA_SUCCESS)
		return;
	driver.fault = fault;
	stat_add(STAT_FAULTS, 1);
	for (struct context *context = driver.contexts; context; context = context->next)
		for (struct stream *stream = context->streams; stream; stream = stream->next)
			atomic_store_explicit(&stream->cancelled, true, memory_order_relaxed);
	pthread_cond_broadcast(&driver.progress);
}

CUresult stream_check_sync(struct stream *stream)
{
	return stream->capture ? capture_forbid(stream) : CUDA_SUCCESS;
}

/* The default stream of the current context; a green context's is created at its first use. */
static CUresult stream_default(struct stream **ret_stream)
{
	struct green *green = context_green(NULL);

	if (green && !green->null_stream)
		green->null_stream = stream_new_in(green->context, green, CU_STREAM_DEFAULT, 0);
	*ret_stream = green ? green->null_stream : context_current()->null_stream;
	return *ret_stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * The calling thread's default stream in the current context, created at its first use. Green
 * contexts have none.
 */
static CUresult stream_per_thread(struct stream **ret_stream)
{
	struct context *context = context_current();
	struct stream *stream;

	if (context_green(NULL))
		return CUDA_ERROR_INVALID_HANDLE;
	for (stream = context->streams; stream; stream = stream->next)
		if (stream->is_per_thread && pthread_equal(stream->owner, pthread_self()))
			break;
	if (!stream) {
		stream = stream_new_in(context, NULL, CU_STREAM_DEFAULT, 0);
		if (!stream)
			return CUDA_ERROR_OUT_OF_MEMORY;
		stream->is_per_thread = true;
		stream->owner = pthread_self();
	}
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

CUresult stream_get(CUstream handle, struct stream **ret_stream)
{
	struct stream *stream;
	CUresult result;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		result = context_check();
		if (result != CUDA_SUCCESS)
			return result;
		if (handle == CU_STREAM_PER_THREAD)
			return stream_per_thread(ret_stream);
		return stream_default(ret_stream);
	}
	stream = object_find(OBJECT_STREAM, handle);
	if (!stream)
		return context_has_ended() ? CUDA_ERROR_CONTEXT_IS_DESTROYED
					   : CUDA_ERROR_INVALID_HANDLE;
	if (!stream->context->is_active || (stream->is_green && !stream->green))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *handle, unsigned flags, int priority)
{
	struct stream *stream;

	if (!handle || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	stream = stream_new_in(context_current(), context_green(NULL), flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_add(&stream->object, OBJECT_STREAM);
	stat_add(STAT_STREAMS, 1);
	*handle = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	ENTER(CALL_CONTEXT);
	return stream_create(phStream, Flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	ENTER(CALL_CONTEXT);
	return stream_create(phStream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
	struct stream *stream;

	ENTER(CALL_ALIVE);
	stream = object_find(OBJECT_STREAM, hStream);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->is_green && !stream->green)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	stream_close(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream)
{
	return cuStreamDestroy_v2(hStream);
}
