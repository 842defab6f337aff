/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_MODEL_H
#define SHARE_MODEL_H

/*
 * A GPU in simulated time: foregrounds beside background work, under a share controller. How much
 * a share of the SMs slows a foreground down, and how fast the background is on it, are curves
 * that were measured on an H100, or that a test chooses. The pace of all foregrounds drifts and
 * jumps, as it does on a machine with other work, and each piece of work has noise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "server/schedule/share_controller.h"

#define MODEL_MS UINT64_C(1000000)
#define MODEL_S (1000 * MODEL_MS)

/* The groups of SMs of an H100; 16 stands for all SMs. */
#define MODEL_GROUPS 15u
#define MODEL_POINTS 8
#define MODEL_FOREGROUNDS 3
#define MODEL_PIECES_MAX 300000u

/*
 * How the pace of equal work changes without the background: by a slow drift, of which this is the
 * deviation, and by times in which everything takes `jump' times as long.
 */
struct model_noise {
	double drift;
	double jump; /* 0 or 1: never */
	double jump_s,
		every_s; /* how long such a time lasts, and the time between two, on average */
};

struct model_point {
	unsigned groups;
	double slowdown, speed; /* of the foreground, of the background */
};

/* Ascending groups; in between, the curve is linear. */
struct model_pair {
	const char *name;
	double piece_ms, kernel_ms; /* of the foreground; the background's, on all SMs */
	struct model_point points[MODEL_POINTS];
	unsigned least, most; /* groups at which the controller should arrive */
	double noise;         /* deviation of a piece, as a part of it; 0: NOISE */
};

struct model_foreground {
	const struct model_pair *pair; /* NULL: there is none */
	uint64_t n_works;              /* kinds of pieces, in turn; 0: none repeats */
	double work_ms, pause_ms;      /* it pauses after so much work; pause_ms 0: never */
	uint64_t first_work;           /* the hash of the first kind */

	/* The present piece. */
	uint64_t begin_ns, end_ns, resumed_ns, n_pieces;
	double alone_ns;
	unsigned groups; /* at its begin */
	bool is_whole;   /* the share has not changed since then */
};

struct model {
	struct share_controller controller;
	struct model_foreground foregrounds[MODEL_FOREGROUNDS];
	bool is_background; /* there is some */
	struct model_noise noise;

	uint64_t now_ns;
	double pace;
	bool is_jump;
	unsigned groups;    /* that the background's kernel uses; 0: there is none */
	uint64_t kernel_ns; /* its end, if the next one uses others; 0: it uses the same */

	/* Since model_measure(). */
	uint64_t since_ns;
	double speed, floor_ns, outside_ns; /* of the background; outside of least to most */
	unsigned n_tries, n_sizes;          /* tries of the controller, changes of its good size */
	unsigned good;
	unsigned n;
	double alone[MODEL_PIECES_MAX], beside[MODEL_PIECES_MAX]; /* of the first foreground */
};

/* The largest slowdowns are of the same piece of the ranking, beside and alone. */
struct model_figures {
	double median, p99;    /* beside / alone */
	double speed;          /* the background's mean speed, of its full one */
	double floor, outside; /* parts of the time */
	unsigned n_tries, n_sizes;
};

struct model_point model_point_of(const struct model_pair *pair, unsigned groups);

void model_init(struct model *model, unsigned floor_groups, struct model_noise noise);

/* A foreground that works from now on; returns it for further settings. */
struct model_foreground *model_foreground(
	struct model *model, unsigned index, const struct model_pair *pair);

/* Begins to measure. */
void model_measure(struct model *model);
void model_run(struct model *model, double seconds);
struct model_figures model_figures(struct model *model);

#endif
