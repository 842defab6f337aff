/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A worker process: its main thread owns the objects, and each call has a thread of its own, so
 * that only the state decides which context is current there.
 *
 * Invariant: a call's thread makes no other driver call, except the one that makes a context
 * current.
 */

#include "worker.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fixture.h"

struct cuda_api api;
CUcontext owner;

static CUcontext current; /* in the threads of calls */

struct work {
	const struct call *call;
	int index;
	void *args;
	pthread_t thread;
	sem_t ready, go;
	CUresult result;
	CUresult bound;
};

static int report_fd;

static void report(enum step step, int call, int result)
{
	struct report report = {step, call, result};

	if (write(report_fd, &report, sizeof(report)) != sizeof(report))
		_exit(1);
}

static void must(CUresult result, const char *text)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "contexts: %s: %d\n", text, result);
	_exit(1);
}
#define MUST(call) must(call, #call)

static void load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "contexts: %s\n", dlerror());
		_exit(1);
	}
	cuda_api_load(&api, library, dlsym);
	MUST(api.cuInit(0));
}

void worker_describe(void)
{
	int count = 0, version = 0;
	char name[256] = "";

	load();
	MUST(api.cuDeviceGetCount(&count));
	MUST(api.cuDriverGetVersion(&version));
	MUST(api.cuDeviceGetName(name, sizeof(name), 0));
	printf("# %s, CUDA %d\n", name, version);
	fflush(stdout);
	_exit(1 + count);
}

/* Leaves `owner' current. */
static void make_contexts(enum state state)
{
	if (state == STATE_DEAD || state == STATE_STALE)
		MUST(api.cuCtxCreate_v2(&owner, 0, 0));
	else
		MUST(api.cuDevicePrimaryCtxRetain(&owner, 0));
	if (state == STATE_OTHER)
		MUST(api.cuDevicePrimaryCtxRetain(&current, 1));
	else if (state == STATE_STALE)
		MUST(api.cuDevicePrimaryCtxRetain(&current, 0));
	else if (state != STATE_NONE && state != STATE_NULL)
		current = owner;
	streams_are_null = state == STATE_NULL;
	MUST(api.cuCtxSetCurrent(owner));
}

static void end_context(enum state state)
{
	CUresult result;

	report(STEP_END, -1, 0);
	result = state == STATE_RESET ? api.cuDevicePrimaryCtxReset_v2(0)
				      : api.cuCtxDestroy_v2(owner);
	report(STEP_ENDED, -1, result);
	if (result != CUDA_SUCCESS)
		_exit(0);
}

static bool ends_context(enum state state)
{
	return state == STATE_DEAD || state == STATE_STALE || state == STATE_RESET;
}

static void *thread_run(void *data)
{
	struct work *work = data;

	work->bound = current ? api.cuCtxSetCurrent(current) : CUDA_SUCCESS;
	sem_post(&work->ready);
	sem_wait(&work->go);
	work->result = work->call->make(work->args);
	return NULL;
}

static void wait_ready(struct work *work)
{
	while (sem_wait(&work->ready) < 0)
		continue;
	MUST(work->bound);
}

static bool is_absent(const struct call *call)
{
	void *function;

	memcpy(&function, (const char *)&api + call->offset, sizeof(function));
	return function == (void *)cuda_api_absent;
}

/* Whether the call can be made. Reports why not. */
static bool work_prepare(struct work *work, int index)
{
	*work = (struct work){.call = &calls[index], .index = index};
	if (is_absent(work->call)) {
		report(STEP_DONE, index, RESULT_ABSENT);
		return false;
	}
	report(STEP_PREPARE, index, 0);
	fixture_begin();
	work->args = make_zeros();
	if (work->call->prepare)
		work->call->prepare(work->args);
	if (fixture_failed()) {
		fprintf(stderr, "contexts: no arguments for %s\n", work->call->symbol);
		report(STEP_DONE, index, RESULT_FIXTURE);
		return false;
	}
	sem_init(&work->ready, 0, 0);
	sem_init(&work->go, 0, 0);
	if (pthread_create(&work->thread, NULL, thread_run, work))
		abort();
	wait_ready(work);
	return true;
}

static void work_do(struct work *work)
{
	report(STEP_CALL, work->index, 0);
	sem_post(&work->go);
	pthread_join(work->thread, NULL);
	report(STEP_DONE, work->index, work->result);
}

/* The context of the objects, or the primary context, is as it was before the calls. */
static bool state_holds(enum state state, int was_active)
{
	unsigned int flags;
	int is_active = 0;

	if (!ends_context(state))
		return api.cuCtxSetCurrent(owner) == CUDA_SUCCESS &&
		       api.cuCtxSynchronize() == CUDA_SUCCESS;
	/* A call may have stopped the GPU: that is the result of all later calls. */
	if (state == STATE_STALE && api.cuCtxSetCurrent(current) == CUDA_SUCCESS &&
		api.cuCtxSynchronize() != CUDA_SUCCESS)
		return false;
	MUST(api.cuDevicePrimaryCtxGetState(0, &flags, &is_active));
	return is_active == was_active;
}

/* Objects of a context that still lives are made just before their call. */
static void run_alive(enum state state, int first, int end, const int *results)
{
	struct work work;

	for (int i = first; i < end; i++) {
		if (results[i] != RESULT_UNKNOWN || !work_prepare(&work, i))
			continue;
		work_do(&work);
		if (strstr(work.call->symbol, "Capture"))
			fixture_end();
		if (!state_holds(state, 1))
			_exit(0);
	}
}

static void run_ended(enum state state, int first, int end, const int *results)
{
	struct work *works = calloc(end - first, sizeof(*works));
	unsigned int flags;
	int n = 0, was_active = 0;

	if (!works)
		abort();
	for (int i = first; i < end; i++)
		if (results[i] == RESULT_UNKNOWN && work_prepare(&works[n], i))
			n++;
	end_context(state);
	MUST(api.cuDevicePrimaryCtxGetState(0, &flags, &was_active));
	for (int i = 0; i < n; i++) {
		work_do(&works[i]);
		if (!state_holds(state, was_active))
			_exit(0);
	}
}

void worker_run(enum state state, int first, int end, const int *results, int fd)
{
	const struct rlimit no_core = {0};

	report_fd = fd;
	/* The driver starts faster with one device. */
	if (state != STATE_OTHER)
		setenv("CUDA_VISIBLE_DEVICES", "0", false);
	setrlimit(RLIMIT_CORE, &no_core);
	load();
	make_contexts(state);
	if (ends_context(state))
		run_ended(state, first, end, results);
	else
		run_alive(state, first, end, results);
	/* Without the library's destructors: objects of dead contexts exist. */
	_exit(0);
}

/* Breaks the check and all later checks of the call, but for others of the same argument. */
static bool break_checks(const struct check *check, void *args)
{
	bool needs_context = check->size == 0;
	const struct check *other = check + 1;

	memcpy((char *)args + check->offset, &check->bad, check->size);
	for (; other < checks + n_checks && !strcmp(other->symbol, check->symbol); other++) {
		needs_context |= other->size == 0;
		if (other->offset != check->offset || check->size == 0)
			memcpy((char *)args + other->offset, &other->bad, other->size);
	}
	return needs_context;
}

/* Returns whether there were arguments for the call. */
static bool check_one(const struct check *check)
{
	void *args = make_zeros();
	bool needs_context;
	CUresult result;

	fixture_begin();
	check->prepare(args);
	if (fixture_failed())
		return false;
	needs_context = break_checks(check, args);
	MUST(api.cuCtxSetCurrent(needs_context ? NULL : owner));
	result = check->make(args);
	MUST(api.cuCtxSetCurrent(owner));
	if (result != check->result)
		printf("%s, %s: %d, stated is %d\n", check->symbol, check->argument, result,
			check->result);
	return true;
}

void worker_check(void)
{
	unsigned n = 0;

	load();
	make_contexts(STATE_OWN);
	for (size_t i = 0; i < n_checks; i++)
		n += check_one(&checks[i]);
	printf("%u checks\n", n);
	fflush(stdout);
	_exit(0);
}
