/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events between processes: a child forked before any use of CUDA waits on the GPU for an event
 * that its parent records after long work. Then it records the same event after its own work,
 * and the parent waits on the host.
 */

#define NAME "ipc_event"
#include "../helpers/program.h"
#include "../helpers/two_processes.h"

enum {
	WORDS = 1 << 14,
	TURNS = 10
};

struct ticket {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t event;
};

static __global__ void fill_late(unsigned *data, unsigned value, long ticks)
{
	for (long start = clock64(); clock64() - start < ticks;)
		;
	for (unsigned i = threadIdx.x; i < WORDS; i += blockDim.x)
		data[i] = value + i;
}

static void fail(const char *what, long value)
{
	printf(NAME ": %s: %ld\n", what, value);
	exit(1);
}

/* `host' was copied after a wait for the event, without another wait. */
static void check_words(const unsigned *host, unsigned value, const char *what)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (host[i] != value + i)
			fail(what, i);
}

static void child_run(int sock)
{
	static unsigned host[WORDS];
	struct ticket ticket;
	cudaStream_t stream;
	cudaEvent_t event;
	unsigned *data;

	hear(sock, &ticket, sizeof(ticket));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaIpcOpenMemHandle((void **)&data, ticket.memory, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaIpcOpenEventHandle(&event, ticket.event));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		tell_word(sock);
		hear_word(sock);
		CHECK(cudaStreamWaitEvent(stream, event, 0));
		CHECK(cudaMemcpyAsync(host, data, sizeof(host), cudaMemcpyDeviceToHost, stream));
		CHECK(cudaStreamSynchronize(stream));
		check_words(host, turn, "what the parent wrote");
		CHECK(cudaEventQuery(event));
		fill_late<<<1, 64, 0, stream>>>(data, turn + 1000, 2000000);
		CHECK(cudaEventRecord(event, stream));
		tell_word(sock);
		hear_word(sock);
	}
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaIpcCloseMemHandle(data));
	CHECK(cudaStreamDestroy(stream));
	tell_word(sock);
}

static void parent_run(int sock)
{
	static unsigned host[WORDS];
	struct ticket ticket;
	cudaStream_t stream;
	cudaEvent_t event, other;
	unsigned *data;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&data, sizeof(host)));
	CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
	if (cudaEventCreateWithFlags(&other, cudaEventInterprocess) != cudaErrorInvalidValue)
		fail("an event between processes with times", 0);
	cudaGetLastError();
	CHECK(cudaIpcGetMemHandle(&ticket.memory, data));
	CHECK(cudaIpcGetEventHandle(&ticket.event, event));
	tell(sock, &ticket, sizeof(ticket));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		hear_word(sock);
		fill_late<<<1, 64, 0, stream>>>(data, turn, 2000000);
		CHECK(cudaEventRecord(event, stream));
		tell_word(sock);
		hear_word(sock);
		CHECK(cudaEventSynchronize(event));
		CHECK(cudaMemcpyAsync(host, data, sizeof(host), cudaMemcpyDeviceToHost, stream));
		CHECK(cudaStreamSynchronize(stream));
		check_words(host, turn + 1000, "what the child wrote");
		tell_word(sock);
	}
	hear_word(sock);
	CHECK(cudaEventDestroy(event));
	CHECK(cudaFree(data));
	CHECK(cudaStreamDestroy(stream));
}

int main(void)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return 1;
	child = fork();
	if (child == 0) {
		close(ends[0]);
		child_run(ends[1]);
		exit(0);
	}
	close(ends[1]);
	parent_run(ends[0]);
	wait_for_child(child, 0);
	printf(NAME ": ok\n");
	return 0;
}
