/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clients that are never idle and do not fit on a GPU together: nobody waits for longer than the
 * others stay, finish their kernels and move, and a kernel that does not end delays nobody for
 * ever. The workers of all sessions run the code of the server in turn, over a clock that only
 * their sleeps move. Memory, work and copies are simulated.
 */

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base.h"
#include "clock.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"
#include "server/share/arena.h"
#include "server/share/eviction.h"
#include "server/share/mover.h"
#include "server/share/session_devices.h"
#include "server/stream/stream.h"
#include "server/memory/away.h"
#include "server/memory/virtual.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define MIB ((uint64_t)1 << 20)

#define CLIENTS_MAX 6
#define GPUS 2
#define CARD (64 * MIB)
#define CHUNK (4 * MIB)
#define COPY_NS (2 * MS) /* of a MiB */
#define STAY_S 1
#define RUN_NS (60 * S)

/* What a wait for a kernel that does not end adds: away.c gives it up after ten seconds. */
#define ENDLESS UINT64_MAX
#define ENDLESS_NS (10 * S)
/* Looks of a worker that has nothing else to do, and all looks of a wait together. */
#define LOOK_NS (5 * MS)
#define LOOKS_NS (100 * MS)

static struct client {
	struct session session;
	struct eviction eviction;
	struct session_device sdevs[GPUS];
	struct device_quota quotas[GPUS];
	struct page page;
	uint64_t kernel_ns, idle_ns, work_until_ns, longest_wait_ns;
	uint64_t chunk;
	unsigned n_kernels;
	/* The simulation: the thread runs when it is awake for the least time. */
	pthread_t thread;
	sem_t may_run;
	uint64_t wake_ns;
	bool is_pausing, is_done;
} clients[CLIENTS_MAX];

static struct device gpus[GPUS];
static uint64_t used[GPUS], stored, store_limit;
static unsigned n_clients, n_lasting;
static uint64_t clock_ns, end_ns;
static sem_t all_done;
static _Thread_local struct client *self;
static _Thread_local unsigned entered; /* the number of a GPU */

/* No rooms: what the parts of a session do at rest is not part of this. */
const struct session_part *const session_parts[] = {NULL};
const struct device_part *const device_parts[] = {NULL};
const struct arena_sharing *const arena_sharing = NULL;

/* ---- the clock */

/* The next client goes on; the last one that ends wakes the test. */
static void switch_away(void)
{
	struct client *next = NULL;

	for (unsigned i = 0; i < n_clients; i++)
		if (!clients[i].is_done && (!next || clients[i].wake_ns < next->wake_ns))
			next = &clients[i];
	if (!next) {
		sem_post(&all_done);
		return;
	}
	clock_ns = MAX(clock_ns, next->wake_ns);
	if (next == self)
		return;
	sem_post(&next->may_run);
	if (self && !self->is_done)
		sem_wait(&self->may_run);
}

static void sleep_ns(uint64_t ns)
{
	self->wake_ns = clock_ns + ns;
	switch_away();
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	(void)id;
	*now = (struct timespec){(time_t)(clock_ns / S), (long)(clock_ns % S)};
	return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
	(void)rest;
	sleep_ns((uint64_t)pause->tv_sec * S + (uint64_t)pause->tv_nsec);
	return 0;
}

void log_line(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	n_lasting += strstr(text, eviction_stay_text(STAY_LASTS)) != NULL;
}

/* ---- the GPUs */

bool __wrap_streams_poll(struct session *session);
void __wrap_session_devices_trim(struct session *session);
void __wrap_ring_interrupt(struct ring_receiver *receiver);
CUresult __wrap_session_device_enter(struct session *session, struct session_device *sdev);
CUresult __wrap_mover_begin(
	struct mover *mover, struct session *session, struct session_device *sdev);
CUresult __wrap_mover_end(struct mover *mover);
uint64_t __wrap_arena_evict(
	struct arena *arena, struct mover *mover, uint64_t bytes, unsigned *stays);
CUresult __wrap_arena_return(struct arena *arena, struct mover *mover);
void __wrap_arena_returned(struct arena *arena, CUresult result);
uint64_t __wrap_virtual_evict(
	struct session *session, struct mover *mover, uint64_t bytes, unsigned *stays);
CUresult __wrap_virtual_return(struct session *session, struct mover *mover);
void __wrap_virtual_returned(struct session *session, struct session_device *sdev, CUresult result);

/* Whether the kernel has ended. */
bool __wrap_streams_poll(struct session *session)
{
	if (clock_ns < self->work_until_ns)
		return false;
	shm_store64(&session->page->timeline[0], self->n_kernels);
	return true;
}

/* Only the pause between two messages ends; sleeps at gates go on. */
void __wrap_ring_interrupt(struct ring_receiver *receiver)
{
	for (unsigned i = 0; i < n_clients; i++)
		if (&clients[i].session.receiver == receiver && clients[i].is_pausing)
			clients[i].wake_ns = MIN(clients[i].wake_ns, clock_ns);
}

void __wrap_session_devices_trim(_unused_ struct session *session)
{
}

CUresult __wrap_session_device_enter(_unused_ struct session *session, struct session_device *sdev)
{
	entered = sdev->device->ordinal;
	return CUDA_SUCCESS;
}

static CUresult memory_info(size_t *n_free, size_t *n_total)
{
	*n_free = CARD - used[entered];
	*n_total = CARD;
	return CUDA_SUCCESS;
}

CUresult __wrap_mover_begin(
	struct mover *mover, struct session *session, struct session_device *sdev)
{
	*mover = (struct mover){.session = session, .sdev = sdev};
	return CUDA_SUCCESS;
}

CUresult __wrap_mover_end(_unused_ struct mover *mover)
{
	return CUDA_SUCCESS;
}

uint64_t __wrap_arena_evict(
	struct arena *arena, struct mover *mover, uint64_t bytes, unsigned *stays)
{
	const uint64_t chunk = self->chunk;
	uint64_t left = 0;

	*stays |= 1u << STAY_NOTHING;
	while (left < bytes && arena->away < arena->mapped) {
		if (stored + chunk > store_limit) {
			*stays |= 1u << STAY_STORE;
			break;
		}
		stored += chunk;
		sleep_ns(COPY_NS * (chunk / MIB));
		arena->away += chunk;
		used[mover->sdev->device->ordinal] -= chunk;
		left += chunk;
	}
	return left;
}

CUresult __wrap_arena_return(struct arena *arena, struct mover *mover)
{
	uint64_t *own = &used[mover->sdev->device->ordinal];
	const uint64_t chunk = self->chunk;

	while (arena->away > 0) {
		if (*own + chunk > CARD)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*own += chunk;
		stored -= chunk;
		arena->away -= chunk;
		sleep_ns(COPY_NS * (chunk / MIB));
	}
	return CUDA_SUCCESS;
}

void __wrap_arena_returned(_unused_ struct arena *arena, _unused_ CUresult result)
{
}

uint64_t __wrap_virtual_evict(_unused_ struct session *session, _unused_ struct mover *mover,
	_unused_ uint64_t bytes, _unused_ unsigned *stays)
{
	return 0;
}

CUresult __wrap_virtual_return(_unused_ struct session *session, _unused_ struct mover *mover)
{
	return CUDA_SUCCESS;
}

void __wrap_virtual_returned(_unused_ struct session *session, _unused_ struct session_device *sdev,
	_unused_ CUresult result)
{
}

/* ---- the clients */

/* A message that launches a kernel, as the worker executes it; the client never rests. */
static bool execute(struct client *client)
{
	struct session *session = &client->session;
	unsigned wanted = atomic_load(&session->memory_wanted);
	uint64_t start_ns = clock_ns;

	if (wanted & WANTED_RETURN || eviction_must_wait(session->eviction)) {
		if (!away_return(session))
			return false;
		client->longest_wait_ns = MAX(client->longest_wait_ns, clock_ns - start_ns);
	} else if (wanted & WANTED_EVICTION)
		away_refuse(session);
	if (streams_poll(session)) {
		client->n_kernels++;
		client->work_until_ns =
			client->kernel_ns == ENDLESS ? ENDLESS : clock_ns + client->kernel_ns;
	}
	eviction_note_idle(session, clock_ns);
	return true;
}

/* Until the client's next message, the worker does what is wanted of it. */
static void pause_for(struct client *client, uint64_t ns)
{
	const uint64_t until_ns = clock_ns + ns;

	while (clock_ns < until_ns) {
		uint64_t left_ns = until_ns - clock_ns;

		if (atomic_load(&client->session.memory_wanted) != 0) {
			away_serve(&client->session);
			left_ns = MIN(left_ns, LOOK_NS);
		}
		client->is_pausing = true;
		sleep_ns(left_ns);
		client->is_pausing = false;
	}
}

static void *run(void *arg)
{
	self = arg;
	sem_wait(&self->may_run);
	while (clock_ns < end_ns && execute(self))
		pause_for(self, self->idle_ns > 0            ? self->idle_ns
				: self->kernel_ns == ENDLESS ? 50 * MS
							     : 1 + self->kernel_ns / 2);
	/* The client ends, and leaves its memory to those that still wait. */
	for (unsigned g = 0; g < GPUS; g++) {
		used[g] -= self->sdevs[g].arena.mapped - self->sdevs[g].arena.away;
		stored -= self->sdevs[g].arena.away;
	}
	eviction_leave(&self->session);
	self->is_done = true;
	switch_away();
	return NULL;
}

/* All its memory is away at first, as if it had come when the card was full. */
static void make_client(unsigned i, const unsigned mib[GPUS], uint64_t kernel_ns)
{
	struct client *client = &clients[i];
	struct session *session = &client->session;

	memset(client, 0, sizeof(*client));
	*session = (struct session){.id = 1 + i,
		.pid = 100 + (int)i,
		.eviction = &client->eviction,
		.page = shm_at((uintptr_t)&client->page),
		.n_marks = 1,
		.limits.oversubscribe = OVERSUBSCRIBE_YES,
		.memory_wanted = WANTED_RETURN};
	memset(session->limits.soft, 0xff, sizeof(session->limits.soft));
	for (unsigned g = 0; g < GPUS; g++) {
		if (mib[g] == 0)
			continue;
		stored += mib[g] * MIB;
		client->quotas[g].quota.used = mib[g] * MIB;
		session->quotas[g] = &client->quotas[g];
		session->devices[g] = &client->sdevs[g];
		client->sdevs[g] = (struct session_device){.device = &gpus[g],
			.arena = {.mapped = mib[g] * MIB, .away = mib[g] * MIB},
			.memory = &client->quotas[g]};
	}
	client->kernel_ns = kernel_ns;
	client->chunk = CHUNK;
	client->wake_ns = clock_ns + i;
	sem_init(&client->may_run, 0, 0);
	eviction_join(session);
}

static const struct row {
	const char *name;
	unsigned mib[CLIENTS_MAX][GPUS];
	uint64_t kernel_ns[CLIENTS_MAX];
	uint64_t idle_ns[CLIENTS_MAX]; /* after each kernel */
	unsigned whole;                /* bits: those whose memory is one chunk */
	unsigned waiting;              /* bits: those that may have no turn */
	unsigned staying;              /* bits: those that leave for nobody */
	unsigned store_mib;            /* for what leaves; 0: enough */
} rows[] = {
	{"two", {{48}, {48}}, .kernel_ns = {50 * MS, 50 * MS}},
	{"two with long kernels", {{48}, {48}}, .kernel_ns = {3 * S, 700 * MS}},
	{"three of which two fit", {{24}, {24}, {24}}, .kernel_ns = {20 * MS, 50 * MS, 400 * MS}},
	{"six", {{40}, {40}, {40}, {40}, {40}, {40}},
		.kernel_ns = {10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS}},
	{"a large one among small ones", {{56}, {16}, {16}, {16}, {16}},
		.kernel_ns = {100 * MS, 50 * MS, 50 * MS, 50 * MS, 50 * MS}},
	{"two GPUs", {{48, 48}, {48, 48}}, .kernel_ns = {50 * MS, 200 * MS}},
	{"two GPUs, and neighbours on one of them", {{48, 48}, {48}, {0, 48}, {48}, {0, 48}},
		.kernel_ns = {100 * MS, 50 * MS, 300 * MS, 50 * MS, 50 * MS}},
	{"a kernel that does not end", {{40}, {20}, {24}},
		.kernel_ns = {ENDLESS, 50 * MS, 50 * MS}},
	{"... on both GPUs", {{40, 40}, {20, 20}, {24, 24}},
		.kernel_ns = {ENDLESS, 50 * MS, 100 * MS}},
	{"small ones beside two that take turns", {{48}, {48}, {4}, {4}},
		.kernel_ns = {50 * MS, 50 * MS, 50 * MS, 50 * MS}, .staying = 12},
	/* The memory of the first two fits neither into the rest of the card nor into the store. */
	{"a small one beside a full store", {{40}, {40}, {4}},
		.kernel_ns = {50 * MS, 50 * MS, 50 * MS}, .idle_ns = {100 * S}, .whole = 3,
		.waiting = 3, .store_mib = 60},
};

/* Clients x (stay + longest kernel + copies, out and in). */
static uint64_t bound_ns(const struct row *row)
{
	uint64_t kernel_ns = 0, endless_ns = 0;
	unsigned n_gpus = 1;

	for (unsigned i = 0; i < n_clients; i++) {
		if (row->kernel_ns[i] == ENDLESS)
			endless_ns = ENDLESS_NS;
		else
			kernel_ns = MAX(kernel_ns, row->kernel_ns[i]);
		if (row->mib[i][1] > 0)
			n_gpus = GPUS;
	}
	return n_clients * (STAY_S * S + kernel_ns + endless_ns +
				   (CARD / MIB) * COPY_NS * 2 * n_gpus + LOOKS_NS);
}

static void run_row(const struct row *row)
{
	n_lasting = 0;
	memset(used, 0, sizeof(used));
	stored = 0;
	store_limit = row->store_mib > 0 ? row->store_mib * MIB : UINT64_MAX;
	for (n_clients = 0; n_clients < CLIENTS_MAX && row->kernel_ns[n_clients] > 0; n_clients++) {
		make_client(n_clients, row->mib[n_clients], row->kernel_ns[n_clients]);
		clients[n_clients].idle_ns = row->idle_ns[n_clients];
		if (row->whole & 1u << n_clients)
			clients[n_clients].chunk = row->mib[n_clients][0] * MIB;
	}
	end_ns = clock_ns + RUN_NS;
	for (unsigned i = 0; i < n_clients; i++)
		assert_int_equal(pthread_create(&clients[i].thread, NULL, run, &clients[i]), 0);
	switch_away();
	sem_wait(&all_done);
	for (unsigned i = 0; i < n_clients; i++)
		pthread_join(clients[i].thread, NULL);
}

static void check_row(const struct row *row)
{
	for (unsigned i = 0; i < n_clients; i++) {
		const struct client *client = &clients[i];
		uint64_t waited_ns = client->longest_wait_ns;

		if (row->waiting & 1u << i)
			continue;
		if (client->kernel_ns == ENDLESS && n_lasting != 1)
			fail_msg("%s: it had to stop %u times, not once", row->name, n_lasting);
		if (client->kernel_ns != ENDLESS && client->n_kernels < 5)
			fail_msg("%s: client %u had no turns", row->name, i);
		if ((row->staying & 1u << i) && atomic_load(&client->eviction.n_moves) > 0)
			fail_msg("%s: client %u has left", row->name, i);
		if (waited_ns > bound_ns(row))
			fail_msg("%s: client %u has waited for %llu ms, not %llu", row->name, i,
				(unsigned long long)(waited_ns / MS),
				(unsigned long long)(bound_ns(row) / MS));
	}
}

static void test_nobody_waits_long(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		run_row(&rows[i]);
		check_row(&rows[i]);
	}
}

static int start(_unused_ void **state)
{
	clock_ns = 10 * S;
	setenv("MPS_OVERSUBSCRIBE_STAY", "1", 1);
	eviction_init();
	cuda.cuMemGetInfo_v2 = memory_info;
	for (unsigned i = 0; i < GPUS; i++) {
		gpus[i].ordinal = i;
		gpus[i].granularity = CHUNK;
	}
	return sem_init(&all_done, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_waits_long),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
