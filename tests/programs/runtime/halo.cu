/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ranks of an MPI program share one or several GPUs: heat spreads over a plate that is cut into
 * strips, one per rank. Each step needs the border rows of the neighbours. The rows are sent
 * through the host, then by the GPU alone into memory that the neighbours have opened, ordered
 * by events between processes. Every bit must equal the plate of one process. Finally, kernels of
 * all ranks meet repeatedly, which requires all of them on the GPU at once.
 *
 *     mpirun -n RANKS halo [WIDTH ROWS STEPS MEETINGS]
 *
 * Runs: for a test of its own
 * Needs: Open MPI
 */

#define NAME "halo"
#include <mpi.h>

#include "../helpers/program.h"

enum {
	THREADS = 64,
	UP = 0, /* the neighbour with the previous rows */
	DOWN = 1
};

static const float RATE = 0.2f;
static const unsigned long long MEETING_NS =
	20000000000ull; /* after this time, the others have not come */

struct plate {
	int width, rows, steps;
};

/* A rank's part: rows 1 to n are its own, rows 0 and n + 1 those of its neighbours. */
struct strip {
	struct plate plate;
	int first, n;    /* its rows of the plate */
	int around[2];   /* neighbours; MPI_PROC_NULL: none */
	float *cells[2]; /* before and after a step, alternating */
	cudaStream_t stream;
};

/* What a rank tells its neighbours. */
struct ticket {
	cudaIpcMemHandle_t cells[2];
	cudaIpcEventHandle_t done[2];
	int n;
};

struct neighbour {
	float *cells[2];
	cudaEvent_t done[2];
	int n;
};

static int rank, n_ranks;

/* The GPU's compiler may not fuse operations, because the host has no fused multiply-add. */
static __host__ __device__ float cell_next(
	float here, float up, float down, float left, float right)
{
#ifdef __CUDA_ARCH__
	float sum = __fadd_rn(__fadd_rn(up, down), __fadd_rn(left, right));

	return __fadd_rn(here, __fmul_rn(RATE, __fadd_rn(sum, __fmul_rn(-4.0f, here))));
#else
	float sum = (up + down) + (left + right);

	return here + RATE * (sum + -4.0f * here);
#endif
}

/* The plate's edges are constant: its first and last column, and its rows 0 and last. */
static __global__ void spread(const float *from, float *to, int width, int n, int first, int rows)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y + 1, row = first + y - 1;
	const float *at = from + (size_t)y * width + x;

	if (x >= width || y > n)
		return;
	to[(size_t)y * width + x] = x == 0 || x == width - 1 || row == 0 || row == rows - 1
					    ? *at
					    : cell_next(*at, at[-width], at[width], at[-1], at[1]);
}

/* One kernel per rank: each waits until all have come this far. Returns the number of meetings. */
static __global__ void meet(unsigned *came, int me, int n, unsigned meetings,
	unsigned long long limit_ns, unsigned *met)
{
	unsigned long long start, now;
	unsigned meeting = 1;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	now = start;
	for (; meeting <= meetings && now - start < limit_ns; meeting++) {
		atomicExch_system(&came[me * 32], meeting);
		for (int other = 0; other < n; other++)
			while (*(volatile unsigned *)&came[other * 32] < meeting &&
				now - start < limit_ns)
				asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
		if (now - start < limit_ns)
			*met = meeting;
	}
}

static void check_mpi(int result, const char *what)
{
	if (result != MPI_SUCCESS)
		FAIL("rank %d: %s: %d", rank, what, result);
}

#define MPI(call) check_mpi((call), #call)

static float cell_first(const struct plate *plate, int x, int row)
{
	unsigned state = (unsigned)row * (unsigned)plate->width + (unsigned)x + 1;

	for (int i = 0; i < 3; i++)
		next_random(&state);
	return (float)(state % 20000) / 16.0f - 500.0f;
}

/* Some rows before the first step, with a neighbouring row before and after. */
static void cells_fill(const struct plate *plate, int first, int n, float *cells)
{
	for (int y = 0; y < n + 2; y++)
		for (int x = 0; x < plate->width; x++)
			cells[(size_t)y * plate->width + x] = cell_first(plate, x, first + y - 1);
}

static size_t row_size(const struct plate *plate)
{
	return (size_t)plate->width * sizeof(float);
}

static float *row_of(const struct strip *strip, float *cells, int y)
{
	return cells + (size_t)y * strip->plate.width;
}

static void strip_load(struct strip *strip)
{
	size_t size = (size_t)(strip->n + 2) * row_size(&strip->plate);
	float *cells = (float *)malloc(size);

	cells_fill(&strip->plate, strip->first, strip->n, cells);
	for (int i = 0; i < 2; i++)
		CHECK(cudaMemcpyAsync(
			strip->cells[i], cells, size, cudaMemcpyHostToDevice, strip->stream));
	CHECK(cudaStreamSynchronize(strip->stream));
	free(cells);
}

static void strip_make(struct strip *strip, const struct plate *plate, int part, int n_parts)
{
	size_t size;

	strip->plate = *plate;
	strip->first = (int)((long)plate->rows * part / n_parts);
	strip->n = (int)((long)plate->rows * (part + 1) / n_parts) - strip->first;
	strip->around[UP] = part > 0 ? part - 1 : MPI_PROC_NULL;
	strip->around[DOWN] = part + 1 < n_parts ? part + 1 : MPI_PROC_NULL;
	size = (size_t)(strip->n + 2) * row_size(plate);
	for (int i = 0; i < 2; i++)
		CHECK(cudaMalloc(&strip->cells[i], size));
	CHECK(cudaStreamCreateWithFlags(&strip->stream, cudaStreamNonBlocking));
	strip_load(strip);
}

static void strip_free(struct strip *strip)
{
	for (int i = 0; i < 2; i++)
		CHECK(cudaFree(strip->cells[i]));
	CHECK(cudaStreamDestroy(strip->stream));
}

static void strip_step(struct strip *strip, int step)
{
	const struct plate *plate = &strip->plate;
	dim3 grid((plate->width + THREADS - 1) / THREADS, strip->n);

	spread<<<grid, THREADS, 0, strip->stream>>>(strip->cells[step % 2],
		strip->cells[(step + 1) % 2], plate->width, strip->n, strip->first, plate->rows);
	CHECK(cudaGetLastError());
}

/* This rank's row that a neighbour needs, and the row for the neighbour's. */
static int own_row(const struct strip *strip, int side)
{
	return side == UP ? 1 : strip->n;
}

static int other_row(const struct strip *strip, int side)
{
	return side == UP ? 0 : strip->n + 1;
}

/* (a) To pinned memory, to the neighbour by MPI, and to the GPU. */
static void run_through_host(struct strip *strip)
{
	size_t size = row_size(&strip->plate);
	float *out[2], *in[2];

	for (int side = UP; side <= DOWN; side++) {
		CHECK(cudaMallocHost(&out[side], size));
		CHECK(cudaMallocHost(&in[side], size));
	}
	for (int step = 0; step < strip->plate.steps; step++) {
		float *cells = strip->cells[(step + 1) % 2];

		strip_step(strip, step);
		for (int side = UP; side <= DOWN; side++)
			CHECK(cudaMemcpyAsync(out[side], row_of(strip, cells, own_row(strip, side)),
				size, cudaMemcpyDeviceToHost, strip->stream));
		CHECK(cudaStreamSynchronize(strip->stream));
		for (int side = UP; side <= DOWN; side++)
			MPI(MPI_Sendrecv(out[side], strip->plate.width, MPI_FLOAT,
				strip->around[side], side, in[!side], strip->plate.width, MPI_FLOAT,
				strip->around[!side], side, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		for (int side = UP; side <= DOWN; side++)
			if (strip->around[side] != MPI_PROC_NULL)
				CHECK(cudaMemcpyAsync(row_of(strip, cells, other_row(strip, side)),
					in[side], size, cudaMemcpyHostToDevice, strip->stream));
	}
	CHECK(cudaStreamSynchronize(strip->stream));
	for (int side = UP; side <= DOWN; side++) {
		CHECK(cudaFreeHost(out[side]));
		CHECK(cudaFreeHost(in[side]));
	}
}

/* Opens the neighbours' cells, and their events of even and of odd steps. */
static void neighbours_open(
	const struct strip *strip, const cudaEvent_t done[2], struct neighbour neighbours[2])
{
	struct ticket own = {}, theirs[2];

	own.n = strip->n;
	for (int i = 0; i < 2; i++) {
		CHECK(cudaIpcGetMemHandle(&own.cells[i], strip->cells[i]));
		CHECK(cudaIpcGetEventHandle(&own.done[i], done[i]));
	}
	for (int side = UP; side <= DOWN; side++)
		MPI(MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, strip->around[side], side,
			&theirs[!side], sizeof(own), MPI_BYTE, strip->around[!side], side,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	for (int side = UP; side <= DOWN; side++) {
		struct neighbour *neighbour = &neighbours[side];

		if (strip->around[side] == MPI_PROC_NULL)
			continue;
		neighbour->n = theirs[side].n;
		for (int i = 0; i < 2; i++) {
			CHECK(cudaIpcOpenMemHandle((void **)&neighbour->cells[i],
				theirs[side].cells[i], cudaIpcMemLazyEnablePeerAccess));
			CHECK(cudaIpcOpenEventHandle(&neighbour->done[i], theirs[side].done[i]));
		}
	}
}

static void neighbours_close(const struct strip *strip, struct neighbour neighbours[2])
{
	for (int side = UP; side <= DOWN; side++)
		for (int i = 0; i < 2 && strip->around[side] != MPI_PROC_NULL; i++) {
			CHECK(cudaIpcCloseMemHandle(neighbours[side].cells[i]));
			CHECK(cudaEventDestroy(neighbours[side].done[i]));
		}
}

/*
 * (b) Each rank writes its border rows into its neighbours' memory. MPI only carries the notice
 * that an event has been recorded: no rank waits for the GPU before its last step.
 */
static void run_between(struct strip *strip)
{
	struct neighbour neighbours[2];
	cudaEvent_t done[2];

	for (int i = 0; i < 2; i++)
		CHECK(cudaEventCreateWithFlags(
			&done[i], cudaEventInterprocess | cudaEventDisableTiming));
	neighbours_open(strip, done, neighbours);
	for (int step = 0; step < strip->plate.steps; step++) {
		int to = (step + 1) % 2, word = step, theirs[2] = {step, step};

		strip_step(strip, step);
		for (int side = UP; side <= DOWN; side++) {
			struct neighbour *neighbour = &neighbours[side];

			if (strip->around[side] != MPI_PROC_NULL)
				CHECK(cudaMemcpyAsync(row_of(strip, neighbour->cells[to],
							      side == UP ? neighbour->n + 1 : 0),
					row_of(strip, strip->cells[to], own_row(strip, side)),
					row_size(&strip->plate), cudaMemcpyDefault, strip->stream));
		}
		CHECK(cudaEventRecord(done[step % 2], strip->stream));
		for (int side = UP; side <= DOWN; side++)
			MPI(MPI_Sendrecv(&word, 1, MPI_INT, strip->around[side], side,
				&theirs[!side], 1, MPI_INT, strip->around[!side], side,
				MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		for (int side = UP; side <= DOWN; side++) {
			if (theirs[side] != step)
				FAIL("rank %d is at step %d, its neighbour at %d", rank, step,
					theirs[side]);
			if (strip->around[side] != MPI_PROC_NULL)
				CHECK(cudaStreamWaitEvent(
					strip->stream, neighbours[side].done[step % 2], 0));
		}
	}
	CHECK(cudaStreamSynchronize(strip->stream));
	/* A neighbour may have the memory open until it reports otherwise. */
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	neighbours_close(strip, neighbours);
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	for (int i = 0; i < 2; i++)
		CHECK(cudaEventDestroy(done[i]));
}

/* Collects all rows at rank 0; the other ranks have no `whole'. */
static void plate_gather(struct strip *strip, float *whole)
{
	const struct plate *plate = &strip->plate;
	int n_cells = strip->n * plate->width, sizes[64], places[64];
	float *own = (float *)malloc((size_t)n_cells * sizeof(float));

	CHECK(cudaMemcpy(own, row_of(strip, strip->cells[plate->steps % 2], 1),
		(size_t)n_cells * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n_ranks; i++) {
		int first = (int)((long)plate->rows * i / n_ranks);

		places[i] = first * plate->width;
		sizes[i] = (int)((long)plate->rows * (i + 1) / n_ranks) * plate->width - places[i];
	}
	MPI(MPI_Gatherv(
		own, n_cells, MPI_FLOAT, whole, sizes, places, MPI_FLOAT, 0, MPI_COMM_WORLD));
	free(own);
}

/* Computes the plate on the host alone. */
static void plate_compute(const struct plate *plate, float *whole)
{
	size_t n_cells = (size_t)plate->width * plate->rows;
	float *before = (float *)malloc(n_cells * sizeof(float));
	int width = plate->width;

	for (size_t i = 0; i < n_cells; i++)
		whole[i] = cell_first(plate, (int)(i % width), (int)(i / width));
	for (int step = 0; step < plate->steps; step++) {
		memcpy(before, whole, n_cells * sizeof(float));
		for (int y = 1; y < plate->rows - 1; y++)
			for (int x = 1; x < width - 1; x++) {
				const float *at = before + (size_t)y * width + x;

				whole[(size_t)y * width + x] =
					cell_next(*at, at[-width], at[width], at[-1], at[1]);
			}
	}
	free(before);
}

static void plate_compare(
	const struct plate *plate, const float *got, const float *want, const char *how)
{
	for (size_t i = 0; i < (size_t)plate->width * plate->rows; i++)
		if (memcmp(&got[i], &want[i], sizeof(*got)) != 0)
			FAIL("%s: row %zu, column %zu: %.9g instead of %.9g", how, i / plate->width,
				i % plate->width, got[i], want[i]);
}

/* The kernels of all ranks at the same time. Rank 0 owns the words through which they meet. */
static double meet_others(cudaStream_t stream, unsigned meetings)
{
	size_t size = (size_t)n_ranks * 32 * sizeof(unsigned);
	cudaIpcMemHandle_t handle;
	unsigned *came, *met, n_met = 0;
	double began;

	if (rank == 0) {
		CHECK(cudaMalloc(&came, size));
		CHECK(cudaMemset(came, 0, size));
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaIpcGetMemHandle(&handle, came));
	}
	MPI(MPI_Bcast(&handle, sizeof(handle), MPI_BYTE, 0, MPI_COMM_WORLD));
	if (rank != 0)
		CHECK(cudaIpcOpenMemHandle((void **)&came, handle, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaMalloc(&met, sizeof(*met)));
	CHECK(cudaMemsetAsync(met, 0, sizeof(*met), stream));
	/* Alone at first: loading a kernel may need a time without other kernels. */
	meet<<<1, 1, 0, stream>>>(came, rank, n_ranks, 0, MEETING_NS, met);
	CHECK(cudaStreamSynchronize(stream));
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	began = now_s();
	meet<<<1, 1, 0, stream>>>(came, rank, n_ranks, meetings, MEETING_NS, met);
	CHECK(cudaStreamSynchronize(stream));
	began = now_s() - began;
	CHECK(cudaMemcpy(&n_met, met, sizeof(n_met), cudaMemcpyDeviceToHost));
	if (n_met != meetings)
		FAIL("rank %d met the others %u times of %u", rank, n_met, meetings);
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	if (rank != 0)
		CHECK(cudaIpcCloseMemHandle(came));
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	if (rank == 0)
		CHECK(cudaFree(came));
	CHECK(cudaFree(met));
	return began;
}

/* The same plate in one process's memory, with the same kernel. */
static void plate_alone(const struct plate *plate, float *whole)
{
	struct strip strip;

	strip_make(&strip, plate, 0, 1);
	for (int step = 0; step < plate->steps; step++)
		strip_step(&strip, step);
	CHECK(cudaStreamSynchronize(strip.stream));
	CHECK(cudaMemcpy(whole, row_of(&strip, strip.cells[plate->steps % 2], 1),
		(size_t)plate->rows * row_size(plate), cudaMemcpyDeviceToHost));
	strip_free(&strip);
}

int main(int argc, char **argv)
{
	struct plate plate = {argc > 1 ? atoi(argv[1]) : 64, argc > 2 ? atoi(argv[2]) : 50,
		argc > 3 ? atoi(argv[3]) : 21};
	unsigned meetings = argc > 4 ? (unsigned)atoi(argv[4]) : 100;
	double host_s, between_s, meet_s;
	float *want = NULL, *got = NULL;
	struct strip strip;
	int n_devices;

	MPI(MPI_Init(&argc, &argv));
	MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
	if (plate.width < 3 || plate.rows < n_ranks || plate.steps < 1 || n_ranks > 64)
		FAIL("usage: mpirun -n RANKS halo [WIDTH ROWS STEPS MEETINGS]");
	CHECK(cudaGetDeviceCount(&n_devices));
	CHECK(cudaSetDevice(rank % n_devices));
	if (rank == 0) {
		size_t n_cells = (size_t)plate.width * plate.rows;

		want = (float *)malloc(n_cells * sizeof(float));
		got = (float *)malloc(n_cells * sizeof(float));
		plate_compute(&plate, want);
		plate_alone(&plate, got);
		plate_compare(&plate, got, want, "by one process");
	}
	strip_make(&strip, &plate, rank, n_ranks);
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	host_s = now_s();
	run_through_host(&strip);
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	host_s = now_s() - host_s;
	plate_gather(&strip, got);
	if (rank == 0)
		plate_compare(&plate, got, want, "through the host");

	strip_load(&strip);
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	between_s = now_s();
	run_between(&strip);
	between_s = now_s() - between_s;
	plate_gather(&strip, got);
	if (rank == 0)
		plate_compare(&plate, got, want, "between the GPUs' memories");

	meet_s = meet_others(strip.stream, meetings);
	strip_free(&strip);
	if (rank == 0)
		printf("ranks=%d\nhost_us=%.3f\nbetween_us=%.3f\nmeeting_us=%.3f\n", n_ranks,
			host_s * 1e6 / plate.steps, between_s * 1e6 / plate.steps,
			meet_s * 1e6 / meetings);
	free(want);
	free(got);
	MPI(MPI_Finalize());
	if (rank == 0)
		printf(NAME ": ok\n");
	return 0;
}
