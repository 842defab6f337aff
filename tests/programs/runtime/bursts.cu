/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Many short kernels in a row on several streams, without a wait between them: three kernels
 * with parameters of different sizes, in a random order on which the result depends. Bursts
 * of all lengths.
 */

#define NAME "bursts"
#include "../helpers/program.h"

enum {
	STREAMS = 3,
	CELLS = 64,
	BURSTS = 60,
	BURST_MAX = 80,
	PAD = 64
};

struct large {
	unsigned pad[PAD];
	unsigned value;
};

static __global__ void set(unsigned *cells, unsigned i, unsigned value)
{
	cells[i] = value;
}

static __global__ void add(unsigned *cells, unsigned i, unsigned value, unsigned times)
{
	cells[i] = cells[i] * times + value;
}

/* Shifts all cells by one, so every earlier kernel affects the result. */
static __global__ void turn(unsigned *cells, struct large by)
{
	unsigned mine = cells[threadIdx.x];

	__syncthreads();
	cells[(threadIdx.x + 1) % CELLS] = mine ^ by.value ^ by.pad[PAD - 1];
}

static unsigned dice(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void launch(cudaStream_t stream, unsigned *device, unsigned *host, unsigned *state)
{
	unsigned kind = dice(state) % 4, i = dice(state) % CELLS, value = dice(state);
	unsigned turned[CELLS];

	if (kind == 0) {
		set<<<1, 1, 0, stream>>>(device, i, value);
		host[i] = value;
	} else if (kind < 3) {
		add<<<1, 1, 0, stream>>>(device, i, value, kind + 2);
		host[i] = host[i] * (kind + 2) + value;
	} else {
		struct large by = {{0}, value};

		by.pad[PAD - 1] = i;
		turn<<<1, CELLS, 0, stream>>>(device, by);
		for (unsigned at = 0; at < CELLS; at++)
			turned[(at + 1) % CELLS] = host[at] ^ value ^ i;
		memcpy(host, turned, sizeof(turned));
	}
	CHECK(cudaGetLastError());
}

int main(void)
{
	static unsigned host[STREAMS][CELLS], got[CELLS];
	unsigned *device[STREAMS], state = 7;
	cudaStream_t streams[STREAMS];

	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaStreamCreateWithFlags(
			&streams[s], s ? cudaStreamNonBlocking : cudaStreamDefault));
		CHECK(cudaMalloc(&device[s], sizeof(got)));
		CHECK(cudaMemset(device[s], 0, sizeof(got)));
	}
	CHECK(cudaDeviceSynchronize());
	for (int burst = 0; burst < BURSTS; burst++) {
		unsigned length = 1 + dice(&state) % BURST_MAX;
		int s = (int)(dice(&state) % STREAMS);

		for (unsigned i = 0; i < length; i++)
			launch(streams[s], device[s], host[s], &state);
		if (burst % 7 == 0)
			CHECK(cudaStreamSynchronize(streams[s]));
	}
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaMemcpyAsync(
			got, device[s], sizeof(got), cudaMemcpyDeviceToHost, streams[s]));
		CHECK(cudaStreamSynchronize(streams[s]));
		for (int i = 0; i < CELLS; i++)
			if (got[i] != host[s][i]) {
				printf(NAME ": cell %d of stream %d is %u, not %u\n", i, s, got[i],
					host[s][i]);
				return 1;
			}
		CHECK(cudaStreamDestroy(streams[s]));
		CHECK(cudaFree(device[s]));
	}
	printf(NAME ": ok\n");
	return 0;
}
