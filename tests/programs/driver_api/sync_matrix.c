/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's table of synchronous and asynchronous calls, call by call: every copy, set,
 * prefetch and advice, with every kind of memory at either end, on every kind of stream.
 * Before each call a stream is blocked, to distinguish calls that wait for it from calls
 * that do not. The blocked stream is that of the call, one that precedes it by the rules
 * of the legacy stream, or an independent one.
 *
 * Where the documentation leaves the behaviour open, either is right; `--strict' then
 * requires that of the service and the software GPU. `--table' prints a line for each call.
 * `--only NAME' makes only the calls with that name, `--no-batches' no batches: the software
 * GPU's batches behave as those of driver 580, the service's do not.
 *
 * Runs: alone
 * Builds with: tests/programs/helpers/sync_calls.c -pthread
 * Builds with: tests/programs/helpers/sync_calls_ptds.c
 */

#define _GNU_SOURCE
#define NAME "sync_matrix"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "../helpers/sync_memory.h"
#include "../helpers/sync_rules.h"

/* How long a stream is blocked for a call that may wait for it, and for one that may not. */
#define HELD_NS 1000000ull
#define HUNG_NS 10000000000ull

/* After this many calls of either kind, more give no new information. */
#define FAILURES_MAX 40
#define HUNG_MAX 2

enum stream_kind {
	LEGACY,
	PER_THREAD,
	BLOCKING,
	NON_BLOCKING,
	STREAM_KINDS,
};

enum hold {
	ITSELF,
	BEFORE, /* a stream that the call waits for by the rules of the legacy stream */
	BESIDE,
	HOLDS,
};

struct cell {
	const struct sync_call *call;
	const struct memory *dst, *src; /* src NULL: no source */
	enum stream_kind stream;
	enum hold hold;
	enum answer answer;
	/*
	 * Bytes: of the destination before the call, of the source before the call and when the
	 * stream continues, of a source that must have been read, of the destination at the end.
	 */
	unsigned char old, early, late, garbage, final;
};

static const char *const kind_names[KINDS] = {"pageable", "registered", "registered-shared",
	"pinned", "write-combined", "mapped", "managed", "device", "sync-memops", "pool", "virtual",
	"peer", "array", "line"};
static const char *const stream_names[STREAM_KINDS] = {
	"legacy", "per-thread", "blocking", "non-blocking"};
static const char *const hold_names[HOLDS] = {"itself", "before", "beside"};
static const char *const answer_names[ANSWERS] = {"open", "complete", "waits", "returns"};

static struct memory memories[2][KINDS]; /* destinations, sources */
static CUstream streams[STREAM_KINDS];
static bool is_strict, is_table;
static unsigned n_cells, n_failures, n_hung;

/* ---- the blocked stream, until this thread or the releaser releases it */

static uint32_t *word; /* the semaphore of the stream; pinned */
static uint32_t ticket;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool is_armed, is_released; /* is_released: by the releaser */
static struct timespec release_at;
static const struct memory *release_write; /* what it writes first; NULL: nothing */
static unsigned char release_value;

static void let_go(void)
{
	__atomic_store_n(word, ticket, __ATOMIC_RELEASE);
}

static void *release_in_time(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		if (!is_armed) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		if (pthread_cond_timedwait(&changed, &lock, &release_at) != ETIMEDOUT || !is_armed)
			continue;
		if (release_write)
			memset(release_write->host, release_value, SIZE);
		is_armed = false;
		is_released = true;
		let_go();
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

static void releaser_start(void)
{
	pthread_condattr_t attributes;
	pthread_t thread;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	MUST(pthread_create(&thread, NULL, release_in_time, NULL) == 0);
}

static void hold(CUstream stream)
{
	ticket++;
	CHECK(cuStreamWaitValue32(
		stream, (CUdeviceptr)(uintptr_t)word, ticket, CU_STREAM_WAIT_VALUE_GEQ));
}

static void arm(uint64_t after_ns, const struct memory *write, unsigned char value)
{
	pthread_mutex_lock(&lock);
	clock_gettime(CLOCK_MONOTONIC, &release_at);
	after_ns += (uint64_t)release_at.tv_nsec;
	release_at.tv_sec += (time_t)(after_ns / 1000000000);
	release_at.tv_nsec = (long)(after_ns % 1000000000);
	release_write = write;
	release_value = value;
	is_released = false;
	is_armed = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Releases the stream, unless the releaser has. */
static void release(void)
{
	pthread_mutex_lock(&lock);
	is_armed = false;
	let_go();
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static bool was_released(void)
{
	bool was;

	pthread_mutex_lock(&lock);
	was = is_released;
	pthread_mutex_unlock(&lock);
	return was;
}

static void await_releaser(void)
{
	pthread_mutex_lock(&lock);
	while (is_armed)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* ---- one call */

static void print_cell(const struct cell *cell)
{
	printf("%s %s", cell->call->name, kind_names[cell->dst->kind]);
	if (cell->src)
		printf(" from %s", kind_names[cell->src->kind]);
	printf(", %s stream%s, held %s", stream_names[cell->stream],
		is_context_synced ? " of a synchronous context" : "", hold_names[cell->hold]);
}

static void complain(const struct cell *cell, const char *what)
{
	printf(NAME ": ");
	print_cell(cell);
	printf(": %s\n", what);
	if (++n_failures >= FAILURES_MAX)
		exit(1);
}

static CUstream held_stream(const struct cell *cell)
{
	static const enum stream_kind before[] = {BLOCKING, LEGACY, LEGACY, NON_BLOCKING};
	static const enum stream_kind beside[] = {NON_BLOCKING, BLOCKING, PER_THREAD, LEGACY};

	if (cell->hold == ITSELF)
		return streams[cell->stream];
	return streams[cell->hold == BEFORE ? before[cell->stream] : beside[cell->stream]];
}

/* In the order of its stream, so that work queued there may still write it. */
static bool reads_in_order(const struct cell *cell)
{
	enum rule rule = cell->call->rule;

	return cell->src && cell->hold != BESIDE && (rule == RULE_COPY || rule == RULE_BATCH) &&
	       cell->answer != COMPLETE;
}

/* Blocks the stream, with an earlier GPU write of the call's memory behind the wait. */
static void queue_before(struct cell *cell)
{
	const struct memory *memory = cell->src;

	hold(held_stream(cell));
	if (cell->call->rule <= RULE_SET_ALWAYS && cell->hold != BESIDE)
		memory = cell->dst;
	else if (!reads_in_order(cell) || memory->host || !memory->device)
		return;
	CHECK(cuMemsetD8Async(memory->device, cell->late, SIZE, held_stream(cell)));
	if (memory == cell->src)
		cell->final = cell->late;
}

/*
 * A copy of pageable memory waits for its own stream before it reads the source. The
 * documentation does not say that it waits for streams that precede it by the rules of the
 * legacy stream.
 */
static bool is_read_before_turn(const struct cell *cell)
{
	return cell->src && cell->call->is_sync && cell->hold == BEFORE && cell->stream != LEGACY &&
	       cell->src->kind == PAGEABLE && !is_host(cell->dst);
}

/*
 * Where driver 580, against the documentation, reads the source of a batch before its turn: boxes
 * of pageable memory to the GPU at once, lines within the host independently of other streams.
 */
static bool is_batch_read_early(const struct cell *cell)
{
	bool is_within_host = is_host(cell->dst) && is_host(cell->src);

	if (is_strict || !(is_pageable(cell->dst) || is_pageable(cell->src)))
		return false;
	return cell->call->has_boxes ? !is_within_host : is_within_host && cell->hold == BEFORE;
}

/* An asynchronous call may read pageable memory at once, but not a batch in STREAM order. */
static bool is_read_in_turn(const struct cell *cell)
{
	if (cell->call->is_sync)
		return false;
	if (cell->call->rule == RULE_BATCH && is_batch_read_early(cell))
		return false;
	return cell->src->kind == REGISTERED ||
	       (cell->src->kind == PAGEABLE && cell->call->rule == RULE_BATCH);
}

/*
 * Whether the releaser writes the source before it releases the stream, like a host function
 * that is queued there.
 */
static bool is_written_late(const struct cell *cell)
{
	if (!reads_in_order(cell) || !cell->src->host || is_read_before_turn(cell))
		return false;
	return cell->answer == WAITS || (cell->answer == OPEN && is_read_in_turn(cell));
}

/* Driver 580 reads lines of pageable memory to the GPU in their turn, for every order. */
static bool is_during_call(const struct cell *cell)
{
	return cell->call->rule == RULE_BATCH_DURING &&
	       (is_strict || cell->call->has_boxes || cell->src->kind != PAGEABLE ||
		       is_host(cell->dst));
}

/* The caller may use the source again. */
static bool is_read_at_return(const struct cell *cell)
{
	return cell->src && cell->src->host &&
	       (cell->answer == COMPLETE || is_during_call(cell) ||
		       (cell->answer == OPEN && cell->src->kind == PAGEABLE &&
			       cell->call->rule == RULE_COPY));
}

static void check_wait(const struct cell *cell, bool is_early)
{
	if (is_early && cell->answer == WAITS && cell->hold != BESIDE)
		return complain(cell, "returned before what comes before it was done");
	if (cell->dst->host && !memory_has(cell->dst, cell->final))
		complain(cell, "returned before it was done");
}

static void check_return(const struct cell *cell, bool is_early)
{
	enum rule rule = cell->call->rule;

	if (!is_early)
		return;
	if (cuStreamQuery(held_stream(cell)) != CUDA_ERROR_NOT_READY)
		complain(cell, "the stream was not held");
	if (cell->hold != BESIDE && cell->dst->host && rule != RULE_HINT && rule != RULE_ADVICE &&
		!memory_has(cell->dst, cell->old))
		complain(cell, "was done before what comes before it");
}

/* Right after the call. */
static void cell_check(const struct cell *cell, bool is_early)
{
	if (!is_early && cell->answer != OPEN &&
		(cell->hold == BESIDE || cell->answer == RETURNS)) {
		complain(cell, "waited for a stream that was held");
		if (++n_hung >= HUNG_MAX)
			exit(1);
	}
	if (cell->answer == WAITS || cell->answer == COMPLETE)
		check_wait(cell, is_early);
	else if (cell->answer == RETURNS)
		check_return(cell, is_early);
}

/* What the caller does with the source after the call, and the release of the stream. */
static void go_on(struct cell *cell, bool is_late)
{
	if (is_read_at_return(cell)) {
		memset(cell->src->host, cell->garbage, SIZE);
	} else if (cell->answer == RETURNS && reads_in_order(cell) && cell->src->host) {
		memset(cell->src->host, cell->late, SIZE);
		cell->final = cell->late;
	}
	if (is_late)
		await_releaser();
	release();
	CHECK(cuCtxSynchronize());
}

static void cell_prepare(struct cell *cell)
{
	unsigned char first = (unsigned char)(1 + 4 * (n_cells % 60));
	struct rule_of_call rule = rule_of(cell->call, cell->dst, cell->src);

	cell->answer = is_strict ? rule.strict : is_read_before_turn(cell) ? OPEN : rule.said;
	cell->early = cell->final = first;
	cell->late = first + 1;
	cell->garbage = first + 2;
	cell->old = first + 3;
	memory_put(cell->dst, cell->old);
	if (cell->src)
		memory_put(cell->src, cell->early);
}

static void cell_run(struct cell *cell)
{
	const struct sync_call *calls = cell->stream == PER_THREAD ? sync_calls_ptds : sync_calls;
	struct transfer transfer = {.dst = cell->dst, .src = cell->src};
	bool is_late, is_early, may_wait;
	CUresult result;

	cell_prepare(cell);
	transfer.value = cell->early;
	/* The symbols replace a NULL stream by their default, but a batch must name its stream. */
	if (cell->stream >= BLOCKING || cell->call->is_there)
		transfer.stream = streams[cell->stream];
	arm(HUNG_NS, NULL, 0);
	queue_before(cell);
	MUST(!was_released());
	is_late = is_written_late(cell);
	if (is_late)
		cell->final = cell->late;
	may_wait = cell->answer == OPEN || (cell->answer != RETURNS && cell->hold != BESIDE);
	arm(may_wait ? HELD_NS : HUNG_NS, is_late ? cell->src : NULL, cell->late);
	result = calls[cell->call - sync_calls].run(&transfer);
	is_early = !was_released();
	if (result == CUDA_SUCCESS)
		cell_check(cell, is_early);
	go_on(cell, is_late);
	if (result != CUDA_SUCCESS) {
		printf(NAME ": %d: ", result);
		complain(cell, "failed");
	} else if (cell->call->rule < RULE_HINT && !memory_has(cell->dst, cell->final)) {
		complain(cell, "made other bytes");
	}
	n_cells++;
	if (!is_table)
		return;
	print_cell(cell);
	printf(": %s\n", answer_names[cell->answer]);
}

/* ---- all calls */

static bool has_stream(const struct sync_call *call, enum stream_kind stream)
{
	if (call->is_sync)
		return stream <= PER_THREAD;
	if (call->rule == RULE_ADVICE)
		return stream == LEGACY;
	/* Functions of CUDA 12.8 and later refuse the legacy stream. */
	return !call->is_there || stream != LEGACY;
}

static void on_streams(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	for (enum stream_kind stream = LEGACY; stream < STREAM_KINDS; stream++)
		for (enum hold hold = ITSELF; hold < HOLDS && has_stream(call, stream); hold++) {
			struct cell cell = {.call = call,
				.dst = dst,
				.src = src,
				.stream = stream,
				.hold = hold};

			if (hold != BEFORE || stream != NON_BLOCKING)
				cell_run(&cell);
		}
}

/* If the call names it as the device's, it has a device pointer. */
static bool is_taken(const struct memory *memory, unsigned kinds, unsigned named)
{
	return kinds >> memory->kind & 1 && memory_is_there(memory) &&
	       (!(named >> memory->kind & 1) || memory->device || memory->array);
}

static void call_run(const struct sync_call *call)
{
	for (enum kind dst = 0; dst < KINDS; dst++) {
		if (!is_taken(&memories[0][dst], call->dst, call->dst_named))
			continue;
		if (!call->src)
			on_streams(call, &memories[0][dst], NULL);
		for (enum kind src = 0; src < KINDS; src++)
			if (is_taken(&memories[1][src], call->src, call->src_named))
				on_streams(call, &memories[0][dst], &memories[1][src]);
	}
}

/* Between memory of the GPU, with everything that is synchronous by name. */
static void run_synced(const struct sync_call *call)
{
	const enum kind kinds[] = {DEVICE, ARRAY, LINE};

	is_context_synced = true;
	CHECK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 3; k++) {
			const struct memory *dst = &memories[0][kinds[i]];
			const struct memory *src = &memories[1][kinds[k]];

			if (!is_taken(dst, call->dst, call->dst_named))
				continue;
			if (!call->src && k == 0)
				on_streams(call, dst, NULL);
			else if (is_taken(src, call->src, call->src_named))
				on_streams(call, dst, src);
		}
	CHECK(cuCtxSetFlags(0));
	is_context_synced = false;
}

static void set_up(void)
{
	CUcontext context = NULL;
	CUdevice device = 0;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	for (enum kind kind = 0; kind < KINDS; kind++)
		for (unsigned i = 0; i < 2; i++)
			memory_make(&memories[i][kind], kind, context, device);
	CHECK(cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP));
	*word = 0;
	streams[LEGACY] = CU_STREAM_LEGACY;
	streams[PER_THREAD] = CU_STREAM_PER_THREAD;
	CHECK(cuStreamCreate(&streams[BLOCKING], CU_STREAM_DEFAULT));
	CHECK(cuStreamCreate(&streams[NON_BLOCKING], CU_STREAM_NON_BLOCKING));
	releaser_start();
}

static bool is_wanted(const struct sync_call *call, const char *only, bool has_batches)
{
	if (call->is_there && !call->is_there())
		return false;
	if (!has_batches && call->rule >= RULE_BATCH && call->rule <= RULE_BATCH_ANY)
		return false;
	return !only || strcmp(only, call->name) == 0;
}

int main(int argc, char **argv)
{
	const char *only = NULL;
	bool has_batches = true;

	for (int i = 1; i < argc; i++) {
		is_strict |= strcmp(argv[i], "--strict") == 0;
		is_table |= strcmp(argv[i], "--table") == 0;
		has_batches &= strcmp(argv[i], "--no-batches") != 0;
		if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			only = argv[++i];
	}
	set_up();
	for (unsigned i = 0; i < n_sync_calls; i++) {
		const struct sync_call *call = &sync_calls[i];

		if (!is_wanted(call, only, has_batches))
			continue;
		call_run(call);
		if (call->is_sync)
			run_synced(call);
	}
	MUST(n_cells > 0);
	if (n_failures > 0)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
